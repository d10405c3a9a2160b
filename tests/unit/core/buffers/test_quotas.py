"""What quotas leave to Buffers: the oldest first, and never more than a quota has."""

from __future__ import annotations

import math
from typing import Any

import pytest

from support.builders.manifests import buffer
from support.worlds.buffers import Document, a_quota, a_spec, app, translated
from trellis.api.kube.policies import ResourceQuota
from trellis.core.buffers import QuotaAllowance, QuotaClaim, Translation, apply_quotas, divide_quotas
from trellis.core.buffers.chunks import LIMITED_BY_QUOTAS
from trellis.core.buffers.quotas import ClaimKey

KEY = ("ns", "web")
ONE_CORE = a_spec(app(cpu="1", memory="1Gi"))


def pods(count: int, spec: Document = ONE_CORE, **fields: Any) -> Translation:
    return translated(buffer(capacity={"pods": {"replicaNum": count, "podSpec": spec}}, **fields))


def within_quotas(count: int, *quotas: ResourceQuota, spec: Document = ONE_CORE, **fields: Any) -> Translation:
    return apply_quotas({KEY: (0.0, pods(count, spec, **fields))}, quotas)[KEY]


def claim(name: str, created: float, chunks: int) -> QuotaClaim:
    usage = pods(chunks).usage
    assert usage is not None
    return QuotaClaim(("ns", name), created, chunks, usage)


def test_without_quotas_all_chunks_are_kept() -> None:
    assert within_quotas(10) == pods(10)
    assert within_quotas(10, a_quota("secrets", {"secrets": "0"})) == pods(10)


@pytest.mark.parametrize(
    ("hard", "used", "chunks"),
    [
        ({"requests.cpu": "6500m"}, {}, 6),
        ({"cpu": "6"}, {"cpu": "1"}, 5),
        ({"requests.memory": "10Gi"}, {"requests.memory": "7000Mi"}, 3),
        ({"pods": "4"}, {"pods": "1"}, 3),
        ({"count/pods": "2"}, {}, 2),
        ({"cpu": "0"}, {}, 0),
        ({"cpu": "1"}, {"cpu": "5"}, 0),
        ({"cpu": "100", "pods": "7"}, {}, 7),
        ({"cpu": "rubbish"}, {}, 10),
    ],
)
def test_a_quota_limits_chunks_to_its_remainder(hard: Document, used: Document, chunks: int) -> None:
    result = within_quotas(10, a_quota("compute", hard, used))
    assert (result.requested, result.chunks) == (10, chunks)
    assert (result.limited is not None) is (chunks < 10)


def test_the_limiting_quota_is_named_and_the_buffer_stays_ready() -> None:
    quotas = (a_quota("b", {"cpu": "3"}), a_quota("a", {"pods": "3"}), a_quota("c", {"cpu": "5"}))
    result = within_quotas(10, *quotas)
    assert result.is_ready
    assert result.limited is not None
    assert result.limited.reason is LIMITED_BY_QUOTAS
    assert str(result.limited) == "chunks limited from 10 to 3 by quotas: a, b"


def test_limits_count_where_the_pod_has_some() -> None:
    limited = a_spec(app(cpu="1", limits={"cpu": "2"}))
    quota = a_quota("limits", {"limits.cpu": "6", "limits.memory": "1"})
    assert within_quotas(10, quota, spec=limited).chunks == 3
    assert within_quotas(10, quota).chunks == 10


def test_overhead_and_init_containers_count() -> None:
    spec = a_spec(app(cpu="1"), initContainers=[app("init", cpu="2")], overhead={"cpu": "500m"})
    assert within_quotas(10, a_quota("compute", {"cpu": "10"}), spec=spec).chunks == 4
    assert within_quotas(10, a_quota("limits", {"limits.cpu": "1"}), spec=spec).chunks == 10
    limited = {**spec, "containers": [app(cpu="1", limits={"cpu": "2"})]}
    assert within_quotas(10, a_quota("limits", {"limits.cpu": "5"}), spec=limited).chunks == 2


def test_a_new_quota_without_status_counts_by_its_spec() -> None:
    quota = a_quota("new", {"cpu": "2"})
    assert within_quotas(10, ResourceQuota(quota.metadata, quota.spec)).chunks == 2


@pytest.mark.parametrize(
    ("scope", "spec", "counts"),
    [
        ({"scopes": ["NotTerminating"]}, ONE_CORE, True),
        ({"scopes": ["Terminating"]}, ONE_CORE, False),
        ({"scopes": ["Terminating"]}, {**ONE_CORE, "activeDeadlineSeconds": 60}, True),
        ({"scopes": ["NotTerminating"]}, {**ONE_CORE, "activeDeadlineSeconds": 60}, False),
        ({"scopes": ["BestEffort"]}, ONE_CORE, False),
        ({"scopes": ["BestEffort"]}, a_spec(app()), True),
        ({"scopes": ["NotBestEffort"]}, a_spec(app()), False),
        ({"scopes": ["PriorityClass"]}, ONE_CORE, False),
        ({"scopes": ["PriorityClass"]}, {**ONE_CORE, "priorityClassName": "high"}, True),
        ({"scopes": ["NotTerminating", "BestEffort"]}, ONE_CORE, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, ONE_CORE, False),
        ({"scopes": ["VolumeAttributesClass"]}, ONE_CORE, False),
    ],
)
def test_a_quota_counts_pods_in_its_scope_alone(scope: Document, spec: Document, counts: bool) -> None:
    assert (within_quotas(10, a_quota("scoped", {"pods": "1"}, **scope), spec=spec).chunks == 1) is counts


@pytest.mark.parametrize(
    ("operator", "values", "name", "counts"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], "low", False),
        ("NotIn", ["high"], "low", True),
        ("NotIn", ["high"], "high", False),
        ("Exists", [], "low", True),
        ("DoesNotExist", [], "low", False),
        ("DoesNotExist", [], "", True),
    ],
)
def test_priority_classes_are_selected_by_operator(operator: str, values: list[str], name: str, counts: bool) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    quota = a_quota("scoped", {"pods": "1"}, scopeSelector={"matchExpressions": [expression]})
    assert (within_quotas(10, quota, spec={**ONE_CORE, "priorityClassName": name}).chunks == 1) is counts


def test_affinity_across_namespaces_is_a_scope_of_its_own() -> None:
    term = {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {}}
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}}
    quota = a_quota("crossing", {"pods": "1"}, scopes=["CrossNamespacePodAffinity"])
    assert within_quotas(10, quota, spec={**ONE_CORE, "affinity": affinity}).chunks == 1


def test_the_oldest_buffer_is_served_first() -> None:
    claims = [claim("young", 30.0, 4), claim("ageless", math.nan, 4), claim("old", 10.0, 4), claim("middle", 20.0, 4)]
    assert divide_quotas(claims, [a_quota("compute", {"cpu": "10"})]) == {
        ("ns", "old"): QuotaAllowance(4),
        ("ns", "middle"): QuotaAllowance(4),
        ("ns", "young"): QuotaAllowance(2, ("compute",)),
        ("ns", "ageless"): QuotaAllowance(0, ("compute",)),
    }


def test_of_equally_old_buffers_the_first_by_name_is_served_first() -> None:
    result = divide_quotas([claim("b", 1.0, 4), claim("a", 1.0, 4)], [a_quota("compute", {"cpu": "5"})])
    assert [result["ns", name].chunks for name in "ab"] == [4, 1]


def test_a_keep_minimum_buffer_may_have_the_whole_quota_in_spite_of_its_usage() -> None:
    quota = a_quota("compute", {"cpu": "10"}, {"cpu": "8"})
    assert within_quotas(6, quota, recreationStrategy="KeepMinimum").chunks == 6
    assert within_quotas(12, quota, recreationStrategy="KeepMinimum").chunks == 10
    assert within_quotas(6, quota).chunks == 2


def test_a_buffer_that_is_not_ready_takes_nothing_from_the_others() -> None:
    made: dict[ClaimKey, tuple[float, Translation]] = {("ns", "a"): (1.0, pods(3, {})), ("ns", "b"): (2.0, pods(3))}
    result = apply_quotas(made, [a_quota("compute", {"cpu": "3"})])
    assert [result["ns", name].chunks for name in "ab"] == [0, 3]
    assert result["ns", "a"] == made["ns", "a"][1]
