"""Ground floor of distced: events and time, describable sets, wire format, bus, client, event history."""
