"""Sentences about a workload: size, count and spare capacity."""

from __future__ import annotations

from support.builders.collected_clusters import COMPONENTS, Cluster, search, shop, spare
from trellis.core.explain import CollectedSettings, explain_workload
from trellis.reports.explain.report import as_text


def text(cluster: Cluster, name: str, kind: str = "Deployment") -> str:
    evidence = cluster.evidence(CollectedSettings(with_flags=(*COMPONENTS, "buffers", "hvpa")))
    return "\n".join(as_text(explain_workload(evidence, kind, name), 10_000))


def test_size_count_and_spare_capacity_stand_at_the_top() -> None:
    lines = text(shop(), "web").splitlines()
    assert lines[0].startswith("Deployment shop/web, at ")
    assert lines[2].startswith("Size: VerticalPodAutoscaler web governs 3 pods of Deployment web in mode Recreate")
    assert "Count: 3 replicas, 3 pods ready. HorizontalPodAutoscaler web decides the count." in lines
    assert "Spare capacity: no Buffer." in lines


def test_containers_stand_beside_what_is_recommended_for_them() -> None:
    shown = text(shop(), "web")
    assert "app requests CPU 500m and memory 1Gi, limits memory 1Gi; recommended: CPU 1 and memory 2Gi." in shown
    assert "`trellis explain recommendation/web` shows each step of the recommendation." in shown
    assert "RECOMMENDATION FOR CONTAINER" not in shown


def test_a_buffer_is_summed_up() -> None:
    assert "Spare capacity: Buffer web. " in text(spare(), "web")


def test_an_hvpa_is_mentioned_as_what_sizes_and_counts() -> None:
    shown = text(search(), "search")
    assert "Hvpa search decides number and size of the replicas of Deployment search" in shown
    assert "Hvpa search decides the count." in shown


def test_a_workload_without_autoscalers_keeps_the_requests_of_its_template() -> None:
    cluster = Cluster()
    cluster.add_workload("plain", 1)
    shown = text(cluster, "plain")
    assert "Size: no VerticalPodAutoscaler and no Hvpa governs its pods" in shown
    assert "No HPA and no Hvpa changes the count." in shown


def test_the_workload_that_is_explained_instead_is_named() -> None:
    shown = text(shop(), "web-1", "ReplicaSet")
    assert "ReplicaSet web-1 belongs to Deployment web, which is explained here." in shown
