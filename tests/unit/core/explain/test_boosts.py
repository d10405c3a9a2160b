"""Explanations of pods whose boost no object gives any more, and of pods that have been boosted for long."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.collected_clusters import BOOST, NAMESPACE, Cluster
from support.worlds.resizes import container
from trellis.core.cluster.dump_format import NOT_SERVED, MissingData
from trellis.core.explain.explanation.document import PodPart
from trellis.core.explain.workload import explain_pod, explain_vpa
from trellis.reports.explain.report import as_text

ANNOTATIONS = {BOOST: '{"requests":{"cpu":"200m","memory":"1Gi"}}'}
FACTOR = {"cpu": {"type": "Factor", "factor": 5}}


def boosted(**pod: Any) -> Cluster:
    cluster = Cluster()
    cluster.add_workload("job", 1, container(cpu="1"), annotations=ANNOTATIONS, **pod)
    return cluster


def the_pod(cluster: Cluster) -> PodPart:
    (pod,) = explain_pod(cluster.evidence(), "job-1-0").pods
    return pod


def test_a_boosted_pod_without_a_governor_is_explained_with_the_end_of_its_boost() -> None:
    cluster = boosted()
    pod = the_pod(cluster)
    assert (pod.by, pod.way, pod.reason.code) == ("", "Leave", "BoostWithoutPolicy")
    assert [(boost.container, boost.phase) for boost in pod.boosts] == [("app", "Held")]
    assert pod.boosts[0].before == {"requests": {"cpu": "200m", "memory": "1Gi"}}
    text = "\n".join(as_text(explain_pod(cluster.evidence(), "job-1-0"), 300))
    assert "no object boosts the container any more" in text
    assert "it requested CPU 200m and memory 1Gi before" in text


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (MissingData("Hvpa", "", NOT_SERVED), "BoostWithoutPolicy"),
        (MissingData("Hvpa", NAMESPACE, "is forbidden"), "PodNotGoverned"),
        (MissingData("VerticalPodAutoscaler", "", "is forbidden"), "PodNotGoverned"),
    ],
)
def test_nothing_is_reported_about_an_object_that_is_gone_where_not_all_objects_could_be_read(
    missing: MissingData, reason: str
) -> None:
    cluster = boosted()
    cluster.missing = [missing]
    assert the_pod(cluster).reason.code == reason


@pytest.mark.parametrize(("age", "warned"), [(599.0, False), (601.0, True)])
def test_a_pod_that_has_been_boosted_for_more_than_ten_minutes_is_named(age: float, warned: bool) -> None:
    cluster = boosted(ready=False, age=age)
    cluster.add_vpa("job", startupBoost=FACTOR)
    pod = the_pod(cluster)
    assert [warning.code for warning in pod.warnings] == (["BoostedForLong"] if warned else [])
    text = "\n".join(as_text(explain_vpa(cluster.evidence(), "job"), 300))
    assert ("Warning, BoostedForLong" in text) is warned
    assert "job-1-0" in text


def test_a_duration_of_more_than_ten_minutes_is_as_it_should_be() -> None:
    cluster = boosted(age=900.0, ready_for=800.0)
    cluster.add_vpa("job", startupBoost={"cpu": {**FACTOR["cpu"], "duration": "1h"}})
    assert the_pod(cluster).warnings == ()
