"""Buckets from history: valid whatever was seen, large enough for all of it, and counted as an Hvpa counts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.surveys_over_time import STEP, by_hpa, daily
from support.worlds.hvpas import HpaModel, VpaModel, World
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.registry import HVPA
from trellis.api.resolve import resolve_hvpa
from trellis.api.validation import validate
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.hvpa.ladder import list_limited_resources
from trellis.core.hvpa.suggest.buckets import BaseUsage, estimate_base_usage
from trellis.core.hvpa.suggest.replay import replay_buckets
from trellis.core.hvpa.suggest.suggestion import (
    FewestReason,
    LargestReason,
    ObservedHpa,
    Suggestion,
    SuggestionRules,
    WorkloadHistory,
    WorkloadUsageHistory,
    suggest,
)
from trellis.core.hvpa.view import ResolvedHvpa
from trellis.core.usage.columns import FloatColumn

RULES = SuggestionRules()
MIB = 2.0**20
GIB = 2.0**30


def lived(
    cpu: FloatColumn,
    pods: float | FloatColumn = 4,
    base: float = 300 * MIB,
    per_millicore: float = 0.1 * MIB,
    **more: Any,
) -> WorkloadHistory:
    counts = np.broadcast_to(np.asarray(pods), len(cpu)).astype(np.int64)
    usage = WorkloadUsageHistory(more.pop("step", STEP), counts, cpu, base * counts + per_millicore * cpu)
    known = {"api_version": "apps/v1", "kind": "Deployment", "name": "web", "replicas": int(counts[-1:].sum())}
    return WorkloadHistory("shop", usage=usage, **{**known, "request": (1000.0, GIB), **more})


def suggested(workload: WorkloadHistory) -> Suggestion:
    return suggest(workload, RULES, EXAMPLE_PRICES)


def meaning_of(suggestion: Suggestion) -> ResolvedHvpa:
    return ResolvedHvpa.from_effective(resolve_hvpa(msgspec.convert(suggestion.manifest, Hvpa)))


def code_of(workload: WorkloadHistory) -> str | None:
    reason = suggested(workload).reason
    return reason.code if reason is not None else None


@st.composite
def lives(draw: st.DrawFn) -> WorkloadHistory:
    """Two days and more of any load, on any number of pods, of any size, within any bounds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    many = draw(st.integers(48, 120))
    peak = 10.0 ** draw(st.floats(0.5, 5.5))
    cpu = peak * rng.uniform(draw(st.sampled_from([0.001, 0.2, 0.9])), 1.0, many)
    pods = (
        rng.integers(1, draw(st.integers(2, 30)), many).astype(np.float64)
        if draw(st.booleans())
        else draw(st.integers(1, 40))
    )
    node = draw(st.sampled_from([(math.inf, math.inf), (4000.0, 8 * GIB), (500.0, 256 * MIB)]))
    hpa = ObservedHpa(
        "web", draw(st.integers(1, 4)), draw(st.integers(1, 40)), draw(st.sampled_from([math.nan, 0.5, 0.9]))
    )
    request = (draw(st.sampled_from([math.nan, 25.0, 700.0, 9000.0])), draw(st.sampled_from([math.nan, GIB])))
    return lived(
        cpu,
        pods,
        base=draw(st.sampled_from([0.0, 1.0, 64 * MIB, 2 * GIB])),
        per_millicore=draw(st.sampled_from([0.0, 1024.0, 4 * MIB])),
        step=3600.0,
        request=request,
        largest=node,
        hpa=draw(st.sampled_from([None, hpa])),
        kind=draw(st.sampled_from(["Deployment", "StatefulSet"])),
    )


@given(lives())
def test_what_is_proposed_is_always_accepted_and_holds_all_that_was_observed(workload: WorkloadHistory) -> None:
    suggestion = suggested(workload)
    if not suggestion.manifest:
        assert suggestion.reason is not None
        return
    meaning, history, proposal = meaning_of(suggestion), workload.usage.complete_samples, suggestion.proposal
    assert proposal is not None
    problems = validate(HVPA, suggestion.manifest)
    assert not any(problem.is_error for problem in problems)
    # The last of 16 buckets may leave a hole of a few millicores.
    assert not problems or proposal.most > proposal.fewest + 15
    share = workload.find_utilization(RULES)
    rest = float(np.maximum(history.memory - proposal.base.memory * history.pods, 0).max())
    needed = {
        "cpu": math.ceil(float(history.cpu.max()) / share),
        "memory": math.ceil(RULES.memory_margin * (rest + proposal.base.memory * proposal.most)) - 1,
    }
    assert list_limited_resources(meaning.ladders, needed) == ()
    assert all(size <= most for size, most in zip(proposal.largest, workload.largest, strict=True))


@given(lives())
def test_the_replay_gives_no_less_than_was_used_a_sample_before(workload: WorkloadHistory) -> None:
    suggestion = suggested(workload)
    if not suggestion.manifest or suggestion.proposal is None:
        return
    meaning, history = meaning_of(suggestion), workload.usage.complete_samples
    allotted = replay_buckets(workload, meaning, suggestion.proposal.base.memory, RULES)
    assert all(meaning.ladders.is_configured(count) for count in set(allotted.replicas.tolist()))
    assert (allotted.replicas * allotted.cpu)[1:] == pytest.approx(
        np.maximum((allotted.replicas * allotted.cpu)[1:], history.cpu[:-1])
    )


def test_a_load_with_a_day_and_a_night_gets_fewer_replicas_at_night_for_less_money() -> None:
    suggestion = suggested(lived(daily(900, 6000), pods=8))
    assert suggestion.proposal is not None
    assert (suggestion.proposal.fewest, suggestion.proposal.fewest_by) == (2, FewestReason.AVAILABILITY)
    assert (suggestion.proposal.largest[0], suggestion.proposal.largest_by) == (1000, LargestReason.REQUEST)
    counts = [bucket["replicas"] for bucket in suggestion.manifest["spec"]["buckets"]]
    assert counts == [{"min": count, "max": count} for count in range(2, 12)]
    assert suggestion.now is not None
    assert suggestion.by_buckets is not None
    assert suggestion.by_buckets.money < 0.5 * suggestion.now.money
    assert suggestion.by_buckets.fewest == 2
    assert max(suggestion.by_buckets.cpu_over, suggestion.by_buckets.memory_over) < 0.01


def test_figures_as_worked_by_hand() -> None:
    """Two days of 1 core and two of 3.9, on four pods of 2 cores and 1 GiB, at 80 %, with base usage alone."""
    cpu = np.repeat([1000.0, 3900.0], 576)
    suggestion = suggested(lived(cpu, request=(2000.0, GIB), base=GIB / 2, per_millicore=0.0))
    assert suggestion.proposal is not None
    # 1.3 x 3.9 / 0.8 = 6.3 cores are four replicas of 2; the least is half of 1 / 0.8 / 2 cores.
    assert (suggestion.proposal.fewest, suggestion.proposal.most) == (2, 4)
    assert [(bucket.first, bucket.least[0], bucket.largest[0]) for bucket in suggestion.proposal.buckets] == [
        (2, 310, 2000),
        (3, 310, 2000),
        (4, 310, 2000),
    ]
    # Two replicas can hold what four have in any case: 1.15 x 4 x 0.5 GiB are 90 % of it, rounded up to a sixteenth.
    assert suggestion.proposal.largest[1] == 1.3125 * GIB
    assert suggestion.now is not None
    assert (suggestion.now.core_hours, suggestion.now.gib_hours) == (4 * 2 * 96, 4 * 96)
    assert suggestion.now.money == pytest.approx(730 * (8 * 0.0316 + 4 * 0.0042))
    then = suggestion.by_buckets
    assert then is not None
    # 1.25 cores for 48 hours and a sample, then 4.875: two replicas hold 4, three hold 6.
    assert (then.fewest, then.most, then.changes) == (2, 3, 1)
    assert then.core_hours == pytest.approx(48 * 1.25 + 48 * 4.875, rel=0.002)
    assert then.cpu_over == pytest.approx(1 / 1152)
    # The base usage of two replicas and then of three, with a margin.
    assert then.gib_hours == pytest.approx(48 * 1.15 * 1.0 + 48 * 1.15 * 1.5, rel=0.01)


def test_the_bounds_of_an_hpa_are_kept_and_its_target_is_the_hvpas() -> None:
    cpu = daily(600, 4500)
    hpa = ObservedHpa("web", least=3, most=6, utilization=0.6)
    suggestion = suggested(lived(cpu, by_hpa(60, 1000, 3)(cpu), hpa=hpa))
    assert suggestion.proposal is not None
    assert (suggestion.proposal.fewest, suggestion.proposal.fewest_by) == (3, FewestReason.HPA)
    assert (suggestion.proposal.most, suggestion.proposal.largest_by) == (6, LargestReason.HPA)
    [metric] = suggestion.manifest["spec"]["hpa"]["template"]["spec"]["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 60}
    assert suggestion.by_hpa is not None
    assert suggestion.by_hpa.fewest == 3
    assert suggestion.by_hpa.most == 6


def test_an_hpa_that_goes_by_something_else_is_not_replayed() -> None:
    suggestion = suggested(lived(daily(600, 4500), hpa=ObservedHpa("web", 2, 9, others=1)))
    assert suggestion.manifest
    assert suggestion.by_hpa is None


def test_members_of_a_stateful_set_are_never_fewer_than_now() -> None:
    suggestion = suggested(lived(daily(300, 2000), pods=3, kind="StatefulSet"))
    assert suggestion.proposal is not None
    assert (suggestion.proposal.fewest, suggestion.proposal.fewest_by) == (3, FewestReason.MEMBERS)


def test_one_replica_is_enough_where_it_was_enough_before() -> None:
    cpu = daily(300, 4500)
    suggestion = suggested(lived(cpu, by_hpa(60, 1000, 1)(cpu), hpa=ObservedHpa("web", 1, 12, 0.6)))
    assert suggestion.proposal is not None
    assert (suggestion.proposal.fewest, suggestion.proposal.fewest_by) == (1, FewestReason.NONE)


def test_no_replica_is_larger_than_one_may_be() -> None:
    suggestion = suggested(lived(daily(900, 6000), pods=8, largest=(500.0, 600 * MIB)))
    assert suggestion.proposal is not None
    assert (suggestion.proposal.largest, suggestion.proposal.largest_by) == ((500, 600 * MIB), LargestReason.BOUND)
    assert suggestion.proposal.most >= 1.3 * 6000 / 0.8 / 500


def test_where_a_replica_may_have_little_memory_there_are_more_of_them() -> None:
    workload = lived(daily(900, 6000), pods=8, per_millicore=0.4 * MIB, largest=(4000.0, 700 * MIB))
    free, bound = suggested(msgspec.structs.replace(workload, largest=(4000.0, 2 * GIB))), suggested(workload)
    assert free.proposal is not None
    assert bound.proposal is not None
    assert (free.proposal.most, bound.proposal.most, bound.proposal.largest_by) == (11, 14, LargestReason.BOUND)
    rest = bound.proposal.memory_peak - 8 * bound.proposal.base.memory
    assert RULES.memory_margin * (RULES.headroom * rest + 14 * bound.proposal.base.memory) <= 14 * 700 * MIB


def test_a_base_usage_of_memory_does_not_keep_replicas_when_the_load_is_gone() -> None:
    suggestion = suggested(
        lived(np.where(np.arange(4032) % 97 == 0, 9000.0, 500.0), pods=8, base=GIB, per_millicore=0.0)
    )
    assert suggestion.by_buckets is not None
    assert suggestion.by_buckets.most > 2
    assert suggestion.by_buckets.core_hours < 336 * 2.0


def test_in_a_closed_loop_a_proposed_hvpa_follows_the_load_up_and_down_again() -> None:
    """With an HPA and a VPA that never forgets memory: whatever was there at noon, at night there are the fewest."""
    suggestion = suggested(lived(daily(900, 6000), pods=8))
    world = World(
        meaning_of(suggestion),
        8,
        {"cpu": 1000, "memory": int(GIB)},
        cpu=900,
        memory=int(90 * MIB),
        base=int(300 * MIB),
        hpa=HpaModel({"cpu": 80}, max_replicas=40),
        vpa=VpaModel(margin=Fraction(23, 20), decay=Fraction(1), resources=("memory",)),
    )
    night = world.run(1800).state
    world.cpu, world.memory = 6000, int(600 * MIB)
    noon = world.run(1800).state
    world.cpu, world.memory = 900, int(90 * MIB)
    after = world.run(1800).state
    assert (night[0], after[0]) == (2, 2)
    assert noon[0] >= 7
    assert noon[0] * noon[1] >= 6000 / 0.9
    assert 900 / 0.9 <= after[0] * after[1] <= 900 / 0.8 * 1.3


def test_base_usage_is_derived_from_counts_that_changed() -> None:
    cpu = daily(600, 4500)
    known = estimate_base_usage(lived(cpu, by_hpa(60, 1000)(cpu)).usage)
    assert known.is_known
    assert known.memory == pytest.approx(300 * MIB, rel=0.01)
    constant = estimate_base_usage(lived(cpu, 4).usage)
    assert not constant.is_known
    assert 300 * MIB < constant.memory < 320 * MIB
    steep = WorkloadUsageHistory(STEP, np.tile([2, 4], 50), np.full(100, 500.0), np.tile([200.0, 1200.0], 50) * MIB)
    assert estimate_base_usage(steep) == BaseUsage(100 * MIB, True), (
        "no pod has more in any case than one was seen with"
    )


@pytest.mark.parametrize(
    ("workload", "code"),
    [
        (lived(daily(300, 2000), kind="DaemonSet"), "NotScaled"),
        (lived(daily(300, 2000), api_version=""), "NotScaled"),
        (lived(daily(300, 2000), name="Odd_Name"), "InvalidName"),
        (lived(daily(300, 2000, days=1)), "TooLittleHistoryForBuckets"),
        (lived(np.zeros(0), replicas=3), "TooLittleHistoryForBuckets"),
        (lived(daily(300, 2000), pods=1), "OneReplica"),
        (lived(daily(1000, 1100)), "SteadyLoad"),
        (lived(np.zeros(1000)), "SteadyLoad"),
        (lived(daily(300, 2000), base=GIB, largest=(8000.0, GIB)), "ReplicaTooLarge"),
        (lived(daily(600, 2000), pods=3, hpa=ObservedHpa("web", 3, 3, 0.2)), "NoSavings"),
    ],
)
def test_why_there_is_none(workload: WorkloadHistory, code: str) -> None:
    assert code_of(workload) == code


def test_times_of_which_something_is_not_known_are_left_out() -> None:
    cpu = daily(900, 6000)
    whole = lived(cpu, pods=8)
    gaps = cpu.copy()
    gaps[::2] = np.nan
    holey = WorkloadUsageHistory(STEP, whole.usage.pods, gaps, whole.usage.memory)
    assert len(holey.complete_samples.pods) == len(cpu) // 2
    assert suggested(msgspec.structs.replace(whole, usage=holey)).days == pytest.approx(7)
