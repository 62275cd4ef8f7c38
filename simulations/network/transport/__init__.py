"""Transport of the simulated network: virtual time, links, MQTT servers, connections, trace."""
