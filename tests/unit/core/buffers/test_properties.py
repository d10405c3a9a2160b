"""Properties of every translation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import buffer, class_buffer, replica_buffer
from support.builders.nodes_and_pods import a_pod_spec, seeded
from support.worlds.buffers import Document, a_quota, a_spec, app, meaning, requests_of, target_facts, translated
from trellis.api.kube.pods import PodSpec
from trellis.api.resolve import NodeClassTotals
from trellis.base.quantities import Quantity
from trellis.core.buffers import NodeClassFacts, QuotaClaim, TranslationFacts, build_status, divide_quotas
from trellis.core.fit import Demand

SPEC_KEYS = {
    "initContainers", "containers", "nodeSelector", "hostNetwork", "affinity", "schedulerName", "tolerations",
    "priorityClassName", "priority", "runtimeClassName", "overhead", "topologySpreadConstraints", "resources",
}  # fmt: skip
CONTAINER_KEYS = {"name", "ports", "resources", "restartPolicy"}
UNLIMITED = {"most_chunks": 2**31}

cores = st.sampled_from(["1m", "7", "40", "40000m", "0.1", "3333m"]) | st.integers(1, 10_000)
bytes_ = st.sampled_from(["1", "5120Mi", "1G", "100m", "7Gi"]) | st.integers(1, 2**40)


@st.composite
def nodes(draw: st.DrawFn) -> NodeClassFacts:
    least = {"cpu": draw(st.integers(1, 100_000)), "memory": draw(st.integers(1, 2**38))}
    return NodeClassFacts(1, least, least)


def within_totals(document: Document, facts: TranslationFacts) -> Iterator[tuple[Quantity, Quantity]]:
    """What all chunks together ask for, and the total that it must not exceed."""
    made, totals = translated(document, facts, **UNLIMITED), meaning(document).capacity
    assert isinstance(totals, NodeClassTotals)
    requests = requests_of(made) if made.is_ready else {}
    for name, total in (("cpu", totals.cpu), ("memory", totals.memory)):
        yield Quantity.parse(requests.get(name, 0)) * made.chunks, total


@pytest.mark.req("BF-25")
@given(cpu=cores, memory=bytes_, chunk=st.dictionaries(st.sampled_from(["cpu", "memory"]), cores), facts=nodes())
def test_chunks_together_never_exceed_the_totals(cpu: Any, memory: Any, chunk: Any, facts: NodeClassFacts) -> None:
    for fields in ({}, {"perChunkResources": chunk}):
        document = class_buffer(totalCpu=cpu, totalMem=memory, **fields)
        assert all(sum_ <= total for sum_, total in within_totals(document, TranslationFacts(nodes=facts)))


@pytest.mark.req("BF-29")
@given(cpu=cores, memory=bytes_, facts=nodes())
def test_derived_chunks_fit_the_smallest_node_and_are_as_few_as_that_allows(
    cpu: Any, memory: Any, facts: NodeClassFacts
) -> None:
    document = class_buffer(totalCpu=cpu, totalMem=memory)
    made = translated(document, TranslationFacts(nodes=facts), **UNLIMITED)
    totals = meaning(document).capacity
    assert isinstance(totals, NodeClassTotals)
    requests = requests_of(made) if made.pod_spec and made.pod_spec["containers"][0]["resources"] else {}
    assert Quantity.parse(requests.get("cpu", 0)) <= Quantity.from_milli(facts.least["cpu"])
    assert Quantity.parse(requests.get("memory", 0)) <= Quantity.from_units(facts.least["memory"])
    assert (made.is_ready, made.chunks > 0) == (True, True)
    fewer = made.chunks - 1
    capacity = (Quantity.from_milli(facts.least["cpu"]) * fewer, Quantity.from_units(facts.least["memory"]) * fewer)
    assert totals.cpu > capacity[0] or totals.memory > capacity[1]


@pytest.mark.req("BF-22")
@given(
    percent=st.integers(0, 300),
    replicas=st.lists(st.integers(0, 5_000), min_size=2, max_size=2).map(sorted),
    low=st.none() | st.integers(0, 50),
    more=st.none() | st.integers(0, 50),
)
def test_a_larger_target_never_has_a_smaller_buffer(
    percent: int, replicas: list[int], low: int | None, more: int | None
) -> None:
    bounds = {"minCount": low, "maxCount": None if more is None else more + (low or 0)}
    share = {"percent": percent, **{name: bound for name, bound in bounds.items() if bound is not None}}
    small, large = (translated(replica_buffer(percent=share), target_facts(count)).chunks for count in replicas)
    assert small <= large
    assert small >= (low or 0)


@given(
    claims=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 50), st.sampled_from(["100m", "1", "2500m"]), st.booleans()),
        max_size=6,
    ),
    hard=st.fixed_dictionaries({"cpu": st.integers(0, 60), "pods": st.integers(0, 60)}),
    used=st.fixed_dictionaries({"cpu": st.integers(0, 30), "pods": st.integers(0, 30)}),
)
def test_buffers_never_exceed_a_quota_and_the_oldest_are_served_first(
    claims: list[tuple[int, int, str, bool]], hard: dict[str, int], used: dict[str, int]
) -> None:
    quota = a_quota("compute", hard, used)
    made = []
    for number, (created, chunks, cpu, is_on_top) in enumerate(claims):
        spec = a_spec(app(cpu=cpu))
        usage = translated(buffer(capacity={"pods": {"replicaNum": chunks, "podSpec": spec}})).usage
        assert usage is not None
        made.append(QuotaClaim((str(number),), float(created), chunks, usage, is_on_top))
    allowed = divide_quotas(made, [quota])
    assert all(0 <= allowed[claim.key].chunks <= claim.chunks for claim in made)
    for name, amount in hard.items():
        on_top = sum(allowed[claim.key].chunks * claim.usage.amounts[name] for claim in made if claim.on_top)
        others = sum(allowed[claim.key].chunks * claim.usage.amounts[name] for claim in made if not claim.on_top)
        assert on_top + others <= amount * 10**9
        assert on_top <= max(amount - used[name], 0) * 10**9
    oldest_first = sorted(made, key=lambda claim: claim.seniority)
    for position in range(len(oldest_first)):
        alone = divide_quotas(oldest_first[: position + 1], [quota])
        assert all(alone[key] == allowed[key] for key in alone)


@pytest.mark.req("BF-07")
@given(seed=st.integers(0, 2**32))
def test_a_published_pod_has_the_same_demand_and_only_scheduling_fields(seed: int) -> None:
    spec = {**a_pod_spec(seeded(seed), ["n1"], wild=True), "nodeName": "n1", "serviceAccountName": "secret"}
    made = translated(buffer(capacity={"pods": {"replicaNum": 1, "podSpec": spec}}))
    assert made.pod_spec is not None
    assert set(made.pod_spec) <= SPEC_KEYS
    for container in (*made.pod_spec["containers"], *made.pod_spec.get("initContainers", ())):
        assert set(container) <= CONTAINER_KEYS
        assert set(container["resources"]) <= {"requests"}
    published = build_status(made, None, 1, 0.0)["podBasedBufferSpec"]["podSpec"]
    assert _demand(published) == _demand(spec)
    repeated = translated(buffer(capacity={"pods": {"replicaNum": 1, "podSpec": published}}))
    assert repeated.pod_spec == published


def _demand(spec: Document) -> Demand:
    return Demand.of(msgspec.convert(spec, PodSpec), moves=True)
