"""What a move changes in an instance beside its constituents and its timestamp: bindings, registers, keys, timers.

All of it is read off the move, the event and the instance before; nothing is changed in place, because instances that
forked share what they hold.
"""

from __future__ import annotations

from distced.detectors.automata.automaton import Automaton
from distced.detectors.automata.due import due_instant
from distced.detectors.stepwise.inner_events import PartEvent
from distced.detectors.stepwise.instance import Instance
from distced.detectors.stepwise.plans import MovePlan, Target
from distced.middleware.model.events import TIME, Attribute, Event


def initialised(instance: Instance, event: Event, inits: tuple) -> tuple[Attribute, ...]:  # type: ignore[type-arg]
    """The registers of an instance, those that begin anew at their initial values."""
    if not inits:
        return instance.registers
    values = list(instance.registers)
    for place, initial in inits:
        values[place] = initial(event, instance.bindings, values)
    return tuple(values)


def assigned(
    automaton: Automaton, instance: Instance, event: Event, move: MovePlan
) -> tuple[tuple[Event | None, ...], tuple[Attribute, ...]]:
    """The bindings and the registers, inner keys behind them, after a move."""
    bindings, registers = instance.bindings, instance.registers
    if move.variable is not None:
        bindings = (*bindings[: move.variable], event, *bindings[move.variable + 1 :])
    if isinstance(event, PartEvent):
        bindings = tuple(
            event.bound.get(name, bound) for name, bound in zip(automaton.variables, bindings, strict=True)
        )
    if move.inits or move.updates or move.entered_keys or isinstance(event, PartEvent):
        values = list(initialised(instance, event, move.inits))
        if isinstance(event, PartEvent):
            for place, register in enumerate(automaton.registers):
                values[place] = event.counted.get(register.name, values[place])
        for place, update in move.updates:
            values[place] = update(event, bindings, values)
        for key, of in move.entered_keys:
            values[len(automaton.registers) + key] = of(event)  # type: ignore[call-overload]
        registers = tuple(values)
    return bindings, registers


def kept_registers(count: int, registers: tuple[Attribute, ...], target: Target) -> tuple[Attribute, ...]:
    """What stays on arrival: the first `count` for the output; an inner key is over when its pattern is left."""
    if len(registers) == count:
        return registers
    keys = (each if place in target.keys else None for place, each in enumerate(registers[count:]))
    return (*registers[:count], *keys)


def timers_after(instance: Instance, event: Event, target: Target) -> tuple[int | None, ...]:
    """When each time event is due after arrival, ns; None where it is not set off."""
    if not instance.timers:
        return ()
    # A time event happens once.
    fired = int(event.type[1:]) if event.rank == TIME else -1
    timers = [due if timer in target.timers and timer != fired else None for timer, due in enumerate(instance.timers)]
    for timer, when in target.arms:
        timers[timer] = due_instant(when, event.hi)
    return tuple(timers)
