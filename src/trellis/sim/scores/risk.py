"""Limits of risk: by how much a variant may exceed the baseline before a report no longer recommends it.

Declared as data, because reports, their tests and docs/guides/simulate.md speak of the same limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from trellis.sim.results import SimulationTotals

_HOUR = 3600.0
_WEEK = 168 * _HOUR


class RiskLimit(msgspec.Struct, frozen=True):
    """A variant is much riskier if a value is above the baseline's by more than a factor and by more than an amount.

    The factor alone would reject one kill where the baseline has none, the amount alone a fleet that is at risk anyway.
    """

    amount: float
    factor: float = 1.5

    def is_exceeded(self, value: float, baseline: float) -> bool:
        """Whether a value is much riskier than the baseline's; never where one of them is unknown."""
        return value > self.factor * baseline and value - baseline > self.amount


class RiskMeasure(msgspec.Struct, frozen=True):
    """A measure of risk with its limit. It is read from the totals of a fleet and the hours that are scored."""

    key: str
    limit: RiskLimit
    read: Callable[[SimulationTotals, float], float]


def _divide(amount: float, by: float) -> float:
    return amount / by if by else 0.0


CPU_TIME_ABOVE = RiskLimit(0.05)  # a share of time
MEMORY_TIME_ABOVE = RiskLimit(0.02)  # a share of time
KILLS = RiskLimit(0.05)  # OOM kills of a container in a week: one in twenty weeks

SIMULATION_RISKS = (
    RiskMeasure("oom_kills", KILLS, lambda fleet, _: _divide(fleet.oom_kills * _WEEK, fleet.container_seconds)),
    RiskMeasure("time_above_memory", MEMORY_TIME_ABOVE, lambda fleet, _: fleet.time_over.memory),
    RiskMeasure("time_above_cpu", CPU_TIME_ABOVE, lambda fleet, _: fleet.time_over.cpu),
    # A share of container time.
    RiskMeasure(
        "throttled", RiskLimit(0.02), lambda fleet, _: _divide(fleet.throttled_seconds, fleet.container_seconds)
    ),
    # CPU demand that was not served, as a share of the CPU that was used.
    RiskMeasure(
        "overload", RiskLimit(0.02), lambda fleet, hours: _divide(fleet.scaled.overload, fleet.used.cpu * hours)
    ),
    # Seconds that 95 of 100 pods wait for a node at most.
    RiskMeasure("wait", RiskLimit(60.0), lambda fleet, _: fleet.waited.p95),
)


def find_excessive_risks(fleet: SimulationTotals, baseline: SimulationTotals, hours: float) -> Iterator[str]:
    """The keys of the measures by which a fleet is much riskier than the baseline, the most harmful first."""
    for risk in SIMULATION_RISKS:
        if risk.limit.is_exceeded(risk.read(fleet, hours), risk.read(baseline, hours)):
            yield risk.key
