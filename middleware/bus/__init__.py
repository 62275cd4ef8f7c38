"""The bus: publish and subscribe over an MQTT server."""

from distced.middleware.bus.bus import Bus
from distced.middleware.bus.messages import BusState, BusStatistics, Failure, Message
from distced.middleware.bus.routes import Handler
from distced.middleware.bus.timers import Timer
from distced.middleware.model.server_address import Address, parse_address

__all__ = [
    "Address",
    "Bus",
    "BusState",
    "BusStatistics",
    "Failure",
    "Handler",
    "Message",
    "Timer",
    "parse_address",
]
