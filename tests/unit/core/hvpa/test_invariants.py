"""What always holds of an Hvpa, for any buckets, policies, states and paths of demand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.hvpas import buckets, policies, shapes, sizings, totals
from support.worlds.hvpas import Follower, meaning
from trellis.api.buckets import RESOURCES
from trellis.core.hvpa import StepDirection
from trellis.core.hvpa.ladder import list_limited_resources
from trellis.core.hvpa.plan import LIMITED
from trellis.core.recommend.amounts import ResourceAmounts

OPEN = st.just("Auto")


@given(
    buckets(),
    policies(),
    shapes(),
    st.lists(st.tuples(totals(), totals()), min_size=2, max_size=10),
)
def test_what_is_allocated_is_never_below_what_is_asked_for_unless_the_reason_is_reported(
    written: list[dict[str, Any]],
    policy: dict[str, Any],
    begins: tuple[int, ResourceAmounts],
    path: list[tuple[ResourceAmounts, ResourceAmounts]],
) -> None:
    follower = Follower(meaning(*written, **policy), *begins)
    at_once = policy["scaleUp"]["stabilizationWindow"] == "0s"
    for total, target in path:
        made = follower.follow(total, target)
        gets, full = made.shape.totals, list_limited_resources(follower.meaning.ladders, total)
        waits = [step for step in made.summary.blocked if step.direction is StepDirection.UP]
        assert waits or LIMITED in made.summary.notes or all(gets[name] >= made.totals[name] for name in RESOURCES)
        assert not at_once or waits or full or all(gets[name] >= total[name] for name in RESOURCES)


@pytest.mark.req("HV-34")
@given(
    buckets(),
    policies(OPEN),
    shapes(),
    st.lists(st.tuples(totals(), totals()), min_size=1, max_size=6),
    st.tuples(st.integers(0, 500), st.integers(0, 500)),
)
def test_from_any_state_more_demand_never_gets_less(
    written: list[dict[str, Any]],
    policy: dict[str, Any],
    begins: tuple[int, ResourceAmounts],
    path: list[tuple[ResourceAmounts, ResourceAmounts]],
    more: tuple[int, int],
) -> None:
    follower = Follower(meaning(*written, **policy), *begins)
    for amounts in path[:-1]:
        follower.follow(*amounts)
    total, target = path[-1]
    before = follower.plan(total, target)
    after = follower.plan({"cpu": total["cpu"] + more[0], "memory": total["memory"] + more[1]}, target)
    assert after.shape.count >= before.shape.count
    # A step that is worth it takes along what would not be.
    percent = 100 - policy["scaleDown"]["minChangePercent"]
    for name in RESOURCES:
        assert 100 * after.shape.totals[name] >= percent * (before.shape.totals[name] - (before.shape.count - 1))


@given(
    buckets(),
    sizings(),
    st.lists(st.tuples(shapes(), st.lists(totals(), max_size=6)), min_size=2, max_size=2),
    st.tuples(totals(), totals()),
)
def test_outside_the_bands_no_history_is_left_once_the_window_is_over(
    written: list[dict[str, Any]],
    sizing: dict[str, str],
    histories: list[tuple[tuple[int, ResourceAmounts], list[ResourceAmounts]]],
    last: tuple[ResourceAmounts, ResourceAmounts],
) -> None:
    bands = {"minChangePercent": 0, "overlapPercent": 0}
    means = meaning(*written, replicaSize=sizing, scaleDown=bands)
    ends = []
    for begins, path in histories:
        follower = Follower(means, *begins)
        for total in path:
            follower.follow(total, total)
        ends.append([follower.follow(*last).shape for _ in range(8)][-1])
    assert ends[0] == ends[1]
