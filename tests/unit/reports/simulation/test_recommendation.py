"""The variant that a report recommends."""

from __future__ import annotations

import msgspec

from support.builders.results import simulated
from trellis.reports.simulation.recommendation import describe_rejected, recommend_variant
from trellis.reports.simulation.report import as_html, as_text
from trellis.sim.results import CpuAndMemory, RunResult, SimulationTotals

SMALL = simulated(workloads=4, days=4, points=8)
SAFE = SimulationTotals(
    requested=CpuAndMemory(4.0, 4e9),
    used=CpuAndMemory(2.0, 2e9),
    time_over=CpuAndMemory(0.006, 0.0),
    container_seconds=1e6,
    money=100.0,
)


def compared(*fleets: SimulationTotals) -> RunResult:
    """A run of variants with these totals; the first is the baseline."""
    variants = [
        msgspec.structs.replace(SMALL.variants[number], fleet=fleet, title="") for number, fleet in enumerate(fleets)
    ]
    return msgspec.structs.replace(SMALL, variants=variants)


def cheaper(by: float, **changes: object) -> SimulationTotals:
    return msgspec.structs.replace(SAFE, money=SAFE.money - by, **changes)


def test_the_cheapest_of_variants_with_comparable_risk_is_recommended() -> None:
    result = compared(SAFE, cheaper(10), cheaper(20, time_over=CpuAndMemory(0.04, 0.01)))
    assert recommend_variant(result).variant == 2
    assert not recommend_variant(result).rejected


def test_a_cheaper_variant_that_is_much_riskier_is_not_recommended_and_the_reports_say_why() -> None:
    result = compared(SAFE, cheaper(20, time_over=CpuAndMemory(0.2, 0.0)), cheaper(5))
    recommended = recommend_variant(result)
    assert (recommended.variant, recommended.rejected) == (2, (1,))
    sentence = (
        "default would cost 20 % less, and is not recommended because usage is above the CPU request 20 % of the time "
        "(fixed: 0.60 %)."
    )
    assert list(describe_rejected(result)) == [sentence]
    assert sentence in " ".join(" ".join(as_text(result, 100)).split())
    page = as_html(result).replace("\N{NO-BREAK SPACE}", " ")
    assert sentence in page
    assert '<p class="lead">seasonal costs 5.0 % less than fixed' in page


def test_each_measure_of_risk_counts() -> None:
    risky = [
        cheaper(9, oom_kills=5),
        cheaper(8, time_over=CpuAndMemory(0.006, 0.1)),
        cheaper(7, throttled_seconds=1e5),
    ]
    result = compared(SAFE, *risky)
    assert recommend_variant(result).variant == 0
    reasons = list(describe_rejected(result))
    assert ["OOM kills" in reasons[0], "memory request" in reasons[1], "throttled" in reasons[2]] == [True] * 3
    assert "every variant that costs less is much riskier" in " ".join(" ".join(as_text(result, 200)).split())


def test_a_baseline_that_is_at_risk_itself_is_no_reason_to_reject_others() -> None:
    at_risk = msgspec.structs.replace(SAFE, time_over=CpuAndMemory(0.3, 0.2), oom_kills=40)
    assert recommend_variant(compared(at_risk, cheaper(10, time_over=CpuAndMemory(0.35, 0.2)))).variant == 1
