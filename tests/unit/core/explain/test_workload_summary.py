"""What governs a workload: its size, its count and its spare capacity, in one explanation."""

from __future__ import annotations

import pytest

from support.builders.collected_clusters import COMPONENTS, Cluster, search, shop, spare
from trellis.base.errors import InvalidInput
from trellis.core.explain import CollectedSettings, ObjectExplanation, explain_workload
from trellis.core.explain.explanation.workload import WorkloadPart


def explain(cluster: Cluster, name: str, kind: str = "Deployment") -> ObjectExplanation:
    return explain_workload(cluster.evidence(CollectedSettings(with_flags=(*COMPONENTS, "buffers"))), kind, name)


def part(cluster: Cluster, name: str, kind: str = "Deployment") -> WorkloadPart:
    workload = explain(cluster, name, kind).workload
    assert workload is not None
    return workload


def test_its_vpa_its_pods_and_its_hpa_are_found() -> None:
    explained = explain(shop(), "web")
    assert explained.kind == "deployment"
    assert explained.vpa is not None
    assert (explained.vpa.name, len(explained.pods)) == ("web", 3)
    assert explained.workload is not None
    assert (explained.workload.replicas, explained.workload.ready) == (3, 3)
    assert explained.workload.counted_by == ("HorizontalPodAutoscaler web",)
    [container] = explained.workload.containers
    assert dict(container.requests) == {"cpu": "500m", "memory": "1Gi"}
    assert dict(container.recommended) == {"cpu": "1", "memory": "2Gi"}


def test_an_hvpa_decides_size_and_count() -> None:
    explained = explain(search(), "search")
    assert explained.hvpa is not None
    assert explained.workload is not None
    assert explained.workload.counted_by == ("Hvpa search",)


def test_its_buffers_are_explained_with_it_and_those_of_others_are_not() -> None:
    assert [buffer.name for buffer in part(spare(), "web").buffers] == ["web"]
    assert part(spare(), "build").buffers == ()


def test_a_replica_set_leads_to_its_deployment() -> None:
    workload = part(shop(), "web-1", "ReplicaSet")
    assert (workload.kind, workload.name, workload.asked) == ("Deployment", "web", "ReplicaSet web-1")


def test_a_workload_that_nothing_governs_has_pods_and_no_vpa() -> None:
    cluster = Cluster()
    cluster.add_workload("plain", 2)
    explained = explain(cluster, "plain")
    assert (explained.vpa, explained.hvpa, len(explained.pods)) == (None, None, 2)
    assert explained.workload is not None
    assert explained.workload.counted_by == ()


def test_a_second_vpa_of_the_same_target_is_named_as_idle() -> None:
    cluster = shop()
    cluster.add_vpa("web-old", target="web", mode="Off")
    assert part(cluster, "web").idle_vpas == ("web-old",)


def test_pods_that_have_ended_are_left_out() -> None:
    cluster = Cluster()
    cluster.add_workload("web", 2)
    cluster.objects["Pod", ("shop", "web-1-0")]["status"]["phase"] = "Failed"
    assert [pod.name for pod in explain(cluster, "web").pods] == ["web-1-1"]


def test_an_unknown_workload_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidInput, match=r'there is no Deployment of that name .* \(did you mean "search"\?\)'):
        explain(search(), "serach")
