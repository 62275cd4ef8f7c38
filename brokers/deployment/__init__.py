"""Deployments: certificates, users and access lists of the participants at one or several MQTT servers."""
