"""Client API: register types, publish events, subscribe to types and patterns, on threads or asyncio."""
