"""The bus: publish and subscribe over an MQTT server."""

from middleware.address import Address, parse_address
from middleware.bus.bus import Bus
from middleware.bus.messages import BusState, BusStatistics, Failure, Message
from middleware.bus.routes import Handler
from middleware.bus.timers import Timer

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
