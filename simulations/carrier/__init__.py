"""Network fault monitoring: alarms of a carrier's network, patterns for their root causes, and how well these do.

composite-event-framework-2004, Fig. 1: faults of one device set off alarms on others, and operators want to see the
cause alone. Devices, links and the causal edges between kinds of alarms are a made network, or those of a recording.
"""

from distced.simulations.carrier.alarms import ALARM, CLEARED, CarrierAlarms, placed
from distced.simulations.carrier.carrier_network import CarrierNetwork, made_network, read_network
from distced.simulations.carrier.root_causes import RECORDED_WITHIN, RootCauses, edges_found, evaluated, fault_patterns

__all__ = [
    "ALARM",
    "CLEARED",
    "RECORDED_WITHIN",
    "CarrierAlarms",
    "CarrierNetwork",
    "RootCauses",
    "edges_found",
    "evaluated",
    "fault_patterns",
    "made_network",
    "placed",
    "read_network",
]
