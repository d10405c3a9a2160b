"""What a Buffer means: defaults, shorthands, shares."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import TARGET, buffer, class_buffer, replica_buffer
from trellis.api.kinds.buffer import Buffer
from trellis.api.resolve import (
    EffectiveBuffer,
    FixedPods,
    FixedReplicas,
    NodeClassTotals,
    PercentOfReplicas,
    Strategy,
    resolve_buffer,
)
from trellis.base.quantities import Quantity


def meaning(document: dict[str, Any]) -> EffectiveBuffer:
    return resolve_buffer(msgspec.convert(document, Buffer))


@pytest.mark.req("BF-32", "BF-33")
def test_type_and_strategy_have_defaults() -> None:
    buffer = meaning(replica_buffer(exactly=3))
    assert buffer.type == "buffer.x-k8s.io/active-capacity"
    assert buffer.is_active_capacity
    assert buffer.strategy is Strategy.KEEP_EMPTY
    assert buffer.capacity == FixedReplicas(3)


@pytest.mark.req("BF-19")
def test_a_buffer_of_another_type_is_not_active_capacity() -> None:
    document = replica_buffer(exactly=3)
    document["spec"]["type"] = "buffer.gke.io/standby-capacity"
    assert not meaning(document).is_active_capacity


@pytest.mark.req("BF-33")
@pytest.mark.parametrize(
    ("written", "strategy"),
    [
        ("keep-empty", Strategy.KEEP_EMPTY),
        ("KeepEmpty", Strategy.KEEP_EMPTY),
        ("keep-minimum", Strategy.KEEP_MINIMUM),
        ("KeepMinimum", Strategy.KEEP_MINIMUM),
    ],
)
def test_strategies_in_both_spellings(written: str, strategy: Strategy) -> None:
    document = replica_buffer(exactly=3)
    document["spec"]["recreationStrategy"] = written
    assert meaning(document).strategy is strategy


@pytest.mark.req("BF-22")
@pytest.mark.parametrize(
    ("share", "replicas", "chunks"),
    [
        (PercentOfReplicas(10, 0, None), 35, 4),
        (PercentOfReplicas(10, 0, None), 5, 1),
        (PercentOfReplicas(10, 0, 20), 300, 20),
        (PercentOfReplicas(10, 2, None), 0, 2),
        (PercentOfReplicas(10, 0, None), 0, 0),
        (PercentOfReplicas(250, 0, None), 3, 8),
    ],
)
def test_a_share_rounds_up_within_its_bounds(share: PercentOfReplicas, replicas: int, chunks: int) -> None:
    assert share.count_for(replicas) == chunks


@given(st.integers(0, 300), st.integers(0, 10_000))
def test_a_share_is_the_smallest_count_that_covers_the_percentage(percent: int, replicas: int) -> None:
    chunks = PercentOfReplicas(percent, 0, None).count_for(replicas)
    assert chunks * 100 >= percent * replicas
    assert chunks == 0 or (chunks - 1) * 100 < percent * replicas


@pytest.mark.req("BF-46")
def test_story_1s_shorthand_means_a_percentage() -> None:
    document = buffer(targetRef=TARGET, replicaBasedBufferSpec={"replicasCountPercentage": 10, "minCount": 1})
    assert meaning(document).capacity == PercentOfReplicas(10, 1, None)
    assert meaning(replica_buffer(percent={"percent": 10, "minCount": 1})).capacity == meaning(document).capacity


@pytest.mark.req("BF-48", "BF-26")
def test_story_2s_shorthand_means_a_node_class_and_numbers_are_quantities() -> None:
    target = {"apiVersion": "apps/v1", "kind": "CustomComputeClass", "name": "my-custom-class"}
    document = buffer(targetRef=target, nodeClassBufferSpec={"totalCpu": 40, "totalMem": "5120Mi"})
    totals = meaning(document).capacity
    assert isinstance(totals, NodeClassTotals)
    assert totals.cpu == Quantity.parse("40") == Quantity.parse("40000m")
    assert totals.memory == Quantity.parse("5Gi")
    assert totals.chunk is None
    assert meaning(class_buffer()).capacity == totals


@pytest.mark.req("BF-26")
@pytest.mark.parametrize("cpu", [40, "40", "40000m"])
@pytest.mark.parametrize("memory", ["5Gi", "5120Mi", 5 * 2**30])
def test_totals_mean_the_same_in_any_spelling(cpu: int | str, memory: int | str) -> None:
    capacity = meaning(class_buffer(totalCpu=cpu, totalMem=memory)).capacity
    assert isinstance(capacity, NodeClassTotals)
    assert (capacity.cpu, capacity.memory) == (Quantity.from_milli(40_000), Quantity.from_units(5 * 2**30))


@pytest.mark.req("BF-31")
def test_fixed_pods_have_their_spec_unchanged() -> None:
    spec = {"containers": [{"name": "a"}], "nodeSelector": {"pool": "spot"}}
    assert meaning(buffer(capacity={"pods": {"replicaNum": 5, "podSpec": spec}})).capacity == FixedPods(5, spec)


@pytest.mark.req("BF-54")
@pytest.mark.parametrize(
    "spec",
    [
        {"capacity": {"replicas": {"exactly": -1}}},
        {"capacity": {"replicas": {"percent": {"percent": -10}}}},
        {"capacity": {"replicas": {"percent": {"percent": 10, "minCount": -1}}}},
        {"replicaBasedBufferSpec": {"replicasCountPercentage": 10, "maxCount": -1}},
        {"capacity": {"pods": {"replicaNum": -5, "podSpec": {"containers": [{"name": "app"}]}}}},
        {"capacity": {"nodeClass": {"totalCpu": 0, "totalMem": "0"}}},
        {"nodeClassBufferSpec": {"totalCpu": "40", "totalMem": "-1Gi"}},
    ],
    ids=str,
)
def test_a_number_that_no_schema_would_store_is_no_capacity(spec: dict[str, Any]) -> None:
    assert meaning(buffer(**spec)).capacity is None


def test_only_a_minimum_can_be_dedicated() -> None:
    document = replica_buffer(exactly=3)
    document["spec"]["podSelector"] = {"matchLabels": {"app": "web"}}
    assert meaning(document).filled_by is None
    document["spec"]["recreationStrategy"] = "KeepMinimum"
    selector = meaning(document).filled_by
    assert selector is not None
    assert selector.matches({"app": "web", "tier": "x"})
    assert not selector.matches({"app": "api"})


@pytest.mark.req("BF-50")
def test_a_schedule_is_active_only_inside_its_windows() -> None:
    document = replica_buffer(exactly=3)
    assert meaning(document).schedule is None
    document["spec"]["schedule"] = {
        "timeZone": "Europe/Berlin",
        "windows": [{"start": "0 8 * * 1-5", "duration": "10h"}],
    }
    schedule = meaning(document).schedule
    assert schedule is not None
    # 2026-11-16 is a Monday; Berlin is an hour ahead of UTC in November.
    assert schedule.is_active(datetime(2026, 11, 16, 7, 0, tzinfo=UTC))
    assert not schedule.is_active(datetime(2026, 11, 16, 6, 59, tzinfo=UTC))
    assert not schedule.is_active(datetime(2026, 11, 16, 17, 0, tzinfo=UTC))
    assert not schedule.is_active(datetime(2026, 11, 15, 12, 0, tzinfo=UTC))
