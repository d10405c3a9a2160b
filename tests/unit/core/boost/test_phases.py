"""When a boost is over: Ready and duration, giving up, the gate, and what holds a pod back until then."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import boosted, policy, vpa
from support.worlds.boosts import effective, states
from trellis.api.resolve import EffectiveVpa, UpdateMode
from trellis.core.boost.annotation import annotation_key
from trellis.core.boost.phases import BoostPhase, PodBoostPhases, determine_boost_phases

NOW = 10_000.0
APP = {annotation_key("app"): "{}", "vpaUpdates": "Pod resources updated by web"}


def boost(**cpu: Any) -> EffectiveVpa:
    return effective(boosted(type="Factor", factor=2, **cpu))


def phases(vpa_: EffectiveVpa, *, ready_for: float | None, started: float = NOW - 3600, **more: Any) -> PodBoostPhases:
    """Those of a pod that has been Ready for so long, or is not."""
    since = math.inf if ready_for is None else NOW - ready_for
    annotations = more.pop("annotations", APP)
    return determine_boost_phases(
        annotations, vpa_, NOW, ready=ready_for is not None, ready_since=since, started=started, **more
    )


@pytest.mark.req("SB-14", "SB-29")
@pytest.mark.parametrize(
    ("duration", "ready_for", "state", "next_transition"),
    [
        ("0s", 0.0, ("app", "Due", "BoostOver"), None),
        ("0s", None, ("app", "Held", "BoostUntilReady"), None),
        ("60s", 59.9, ("app", "Held", "BoostUntilDuration"), NOW + 0.1),
        ("60s", 60.0, ("app", "Due", "BoostOver"), None),
        ("60s", None, ("app", "Held", "BoostUntilReady"), None),
    ],
)
def test_a_boost_is_over_when_the_pod_was_ready_for_its_duration(
    duration: str, ready_for: float | None, state: tuple[str, str, str], next_transition: float | None
) -> None:
    boost_phases = phases(boost(duration=duration), ready_for=ready_for)
    assert states(boost_phases) == [state]
    assert boost_phases.next_transition == (None if next_transition is None else pytest.approx(next_transition))


@pytest.mark.req("SB-29")
def test_ready_turning_false_starts_the_duration_anew() -> None:
    a_minute = boost(duration="60s")
    assert phases(a_minute, ready_for=59).held
    assert phases(a_minute, ready_for=None).held
    assert phases(a_minute, ready_for=5).next_transition == NOW + 55
    assert phases(a_minute, ready_for=60).due


@pytest.mark.req("SB-29")
def test_a_pod_that_never_becomes_ready_stays_boosted() -> None:
    boost_phases = phases(boost(duration="10s"), ready_for=None, started=NOW - 1e9)
    assert (boost_phases.held[0].ends_at, boost_phases.next_transition) == (math.inf, None)


@pytest.mark.req("SB-29")
def test_a_pod_is_given_up_so_long_after_its_start() -> None:
    patient = boost(giveUpAfterSeconds=600)
    waiting = phases(patient, ready_for=None, started=NOW - 599)
    assert states(waiting) == [("app", "Held", "BoostUntilReady")]
    assert waiting.next_transition == NOW + 1
    assert states(phases(patient, ready_for=None, started=NOW - 600)) == [("app", "Due", "BoostGivenUp")]
    assert phases(patient, ready_for=None, started=math.inf).next_transition is None


def test_a_pod_that_is_ready_is_not_given_up_however_long_its_duration() -> None:
    boost_phases = phases(boost(giveUpAfterSeconds=60, duration="1h"), ready_for=30, started=NOW - 3000)
    assert states(boost_phases) == [("app", "Held", "BoostUntilDuration")]


@pytest.mark.req("SB-06", "SB-39")
def test_each_container_has_its_own_end() -> None:
    document = policy(startupBoost={"cpu": {"type": "Factor", "factor": 2}})
    document["spec"]["startupBoost"] = {"cpu": {"type": "Factor", "factor": 2, "duration": "60s"}}
    two = {annotation_key("app"): "{}", annotation_key("proxy"): "{}"}
    boost_phases = phases(effective(document), ready_for=20, annotations=two)
    assert states(boost_phases) == [("app", "Due", "BoostOver"), ("proxy", "Held", "BoostUntilDuration")]
    assert boost_phases.next_transition == NOW + 40
    assert boost_phases.blocks_changes(UpdateMode.RECREATE, oom_killed=False)


@pytest.mark.parametrize("spec", [{}, {"startupBoost": {}}, {"startupBoost": {"cpu": {"type": "Factor", "factor": 1}}}])
@pytest.mark.parametrize("ready_for", [None, 0.0, 3600.0])
def test_a_boost_without_a_policy_ends_half_a_minute_after_that_was_observed_ready_or_not(
    spec: dict[str, Any], ready_for: float | None
) -> None:
    meaning = effective(vpa(**spec))
    first = phases(meaning, ready_for=ready_for)
    assert states(first) == [("app", "Held", "BoostWithoutPolicy")]
    assert first.next_transition == NOW + 30
    assert phases(meaning, ready_for=ready_for, without_policy_since=NOW - 29.9).held
    over = phases(meaning, ready_for=ready_for, without_policy_since=NOW - 30)
    assert states(over) == [("app", "Due", "BoostWithdrawn")]


@pytest.mark.req("SB-29")
def test_the_flag_gives_up_pods_whose_policy_does_not_say_when() -> None:
    assert states(phases(boost(), ready_for=None, started=NOW - 599, give_up_after=600)) == [
        ("app", "Held", "BoostUntilReady")
    ]
    assert states(phases(boost(), ready_for=None, started=NOW - 600, give_up_after=600)) == [
        ("app", "Due", "BoostGivenUp")
    ]
    for own, phase in ((300, "Due"), (900, "Held")):
        boost_phases = phases(boost(giveUpAfterSeconds=own), ready_for=None, started=NOW - 600, give_up_after=600)
        assert boost_phases.containers[0].phase.value == phase, own


def test_a_pod_counts_as_boosted_for_long_after_ten_minutes_that_are_not_its_duration() -> None:
    started = NOW - 700
    assert phases(boost(), ready_for=None, started=started).find_long_boost_time(started) == started + 600
    in_duration = phases(boost(duration="1h"), ready_for=650, started=started)
    assert in_duration.find_long_boost_time(started) == math.inf
    over = phases(boost(), ready_for=650, started=started)
    assert over.find_long_boost_time(started) == started + 600
    just_over = phases(boost(duration="11m"), ready_for=661, started=started)
    assert just_over.find_long_boost_time(started) == NOW - 1 + 60


@pytest.mark.req("SB-45")
def test_with_the_gate_off_no_boost_is_due_and_no_change_is_blocked() -> None:
    boost_phases = phases(boost(), ready_for=3600, enabled=False)
    assert states(boost_phases) == [("app", "None", "BoostGateOff")]
    assert (boost_phases.due, boost_phases.held, boost_phases.next_transition) == ((), (), None)
    assert not boost_phases.blocks_changes(UpdateMode.RECREATE, oom_killed=False)


@pytest.mark.req("SB-02", "SB-24")
def test_a_pod_without_the_mark_has_no_phase_whatever_its_vpa_says() -> None:
    for ready_for in (None, 0.0, 3600.0):
        boost_phases = phases(boost(duration="60s"), ready_for=ready_for, annotations={"vpaUpdates": "x"})
        assert boost_phases == PodBoostPhases()
        assert not boost_phases.blocks_changes(UpdateMode.RECREATE, oom_killed=False)


@pytest.mark.req("SB-28")
@pytest.mark.parametrize("mode", list(UpdateMode))
def test_while_boosted_only_an_out_of_memory_kill_lifts_the_hold_where_pods_are_evicted(mode: UpdateMode) -> None:
    for ready_for in (None, 10.0, 3600.0):
        boost_phases = phases(boost(duration="60s"), ready_for=ready_for)
        assert boost_phases.blocks_changes(mode, oom_killed=False)
        assert boost_phases.blocks_changes(mode, oom_killed=True) == (
            mode.value not in {"Recreate", "InPlaceOrRecreate"}
        )


@given(
    st.integers(0, 300),
    st.none() | st.integers(1, 300),
    st.none() | st.floats(0, 400),
    st.floats(0, 400),
)
def test_the_next_reconcile_is_at_the_first_moment_at_which_something_is_due(
    duration: int, patience: int | None, ready_for: float | None, running_for: float
) -> None:
    fields = {} if patience is None else {"giveUpAfterSeconds": patience}
    meaning = boost(duration=f"{duration}s", **fields)
    since = math.inf if ready_for is None else NOW - ready_for

    def phases_at(now: float) -> PodBoostPhases:
        return determine_boost_phases(
            APP, meaning, now, ready=ready_for is not None, ready_since=since, started=NOW - running_for
        )

    boost_phases = phases_at(NOW)
    (state,) = boost_phases.containers
    if boost_phases.next_transition is None:
        assert state.phase is BoostPhase.DUE or (ready_for is None and patience is None)
        return
    assert state.phase is BoostPhase.HELD
    assert boost_phases.next_transition > NOW
    assert phases_at(math.nextafter(boost_phases.next_transition, 0)).held
    assert phases_at(boost_phases.next_transition).due
