"""The page about actuation says what the code does: its figures, its budgets, its switch."""

from __future__ import annotations

from pathlib import Path

from trellis.core.resize.disruption_budget import PodAvailability, ReplicaBudget
from trellis.core.resize.freeze import CLUSTER_FREEZE_CONFIG_MAP, FREEZE_ANNOTATION
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import compute_backoff

PAGE = " ".join((Path(__file__).resolve().parents[2] / "docs" / "concepts" / "actuation.md").read_text().split())
HOUR = 3600
RULES = UpdateSettings()


def allowed(replicas: int) -> int:
    budget = ReplicaBudget(
        replicas, [PodAvailability(living=True, serving=True)] * replicas, 1, RULES.eviction_tolerance
    )
    count = 0
    while budget.find_refusal(serving=True) is None:
        budget.record_disruption(serving=True)
        count += 1
    return count


def test_figures_are_those_of_the_settings() -> None:
    lifetime, share, killed = RULES.lifetime / HOUR, RULES.update_threshold * 100, RULES.evict_after_oom / 60
    assert f"{lifetime:.0f} hours, {share:.0f} %, {killed:.0f} minutes" in PAGE
    assert RULES.progress_patience == HOUR
    assert f"an hour in progress, and {RULES.deferred_patience / 60:.0f} minutes deferred" in PAGE


def test_disruption_budgets_are_as_documented() -> None:
    assert f"With 10 replicas and the usual tolerance of half, {allowed(10)} may be out of service" in PAGE
    assert [allowed(count) for count in (1, 2, 3)] == [1, 1, 1]


def test_eviction_loops_pause_as_long_as_documented() -> None:
    pauses = [compute_backoff(times, RULES.loop_backoff, RULES.longest_loop_backoff) / HOUR for times in (1, 2, 99)]
    assert pauses == [1, 2, 24]


def test_the_freeze_switch_has_the_documented_names() -> None:
    assert f"`{CLUSTER_FREEZE_CONFIG_MAP}`" in PAGE
    assert f"`{FREEZE_ANNOTATION}`" in PAGE
