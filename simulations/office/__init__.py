"""The Active Office: a building aware of its inhabitants' behaviour, as a seeded source of events in virtual time.

The building, the occupants and the two scenarios of composite-event-framework-2004 ("Motivation", Fig. 2, "Evaluation
and Results"). `docs/explanation/active-office.md` describes the simulation, with the numbers.
"""

from distced.simulations.office.office import DEFAULT_SEED, DEFAULT_START, ActiveOffice, OfficeStep
from distced.simulations.office.scenarios import read_scenario, scenario_names
from distced.simulations.office.summary import OfficeSummary

__all__ = [
    "DEFAULT_SEED",
    "DEFAULT_START",
    "ActiveOffice",
    "OfficeStep",
    "OfficeSummary",
    "read_scenario",
    "scenario_names",
]
