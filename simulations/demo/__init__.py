"""The demonstration: a server, broker nodes, the Active Office, both scenarios, and a check of the result."""
