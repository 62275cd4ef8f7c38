"""Drivers on MQTT and the wall clock: broker node, bridge, recorder, MQTT servers."""
