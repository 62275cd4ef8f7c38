"""Collection of facts for the checks of the doctor, from this machine, an MQTT server and its participants."""
