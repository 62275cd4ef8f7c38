"""What an application imports, and the ground floor of distced: events, time, describable sets, the bus, the client."""
