#!/bin/sh
# Health of the MQTT server: it is asked with a login that it has to refuse, so the check needs none.
port=$(sed -n 's/^listener //p' /server/mosquitto.conf)
mosquitto_sub --host localhost --port "$port" --cafile /server/ca.pem --insecure -V 5 -u health -P none -t none -W 3 2>/dev/null
# 135: not authorised, by section 3.2.2.2 of MQTT 5.
test $? -eq 135
