"""The bus: publish and subscribe over an MQTT server, on a thread or on asyncio."""

from distced.middleware.bus.bus import AsyncBus, Bus
from distced.middleware.bus.dispatch import BusState
from distced.middleware.bus.failures import Failure
from distced.middleware.bus.loop import Timer
from distced.middleware.bus.messages import BusStatistics, Message
from distced.middleware.bus.subscriptions import Handler
from distced.middleware.model.server_address import Address, parse_address

__all__ = [
    "Address",
    "AsyncBus",
    "Bus",
    "BusState",
    "BusStatistics",
    "Failure",
    "Handler",
    "Message",
    "Timer",
    "parse_address",
]
