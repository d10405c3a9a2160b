"""Owners of pods, groups of Jobs, and the usual requests of a workload."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from trellis.api.kube.meta import KubeObject, ObjectMeta, OwnerReference
from trellis.api.kube.observed_pods import (
    ObservedAmounts,
    ObservedContainer,
    ObservedContainerStatus,
    ObservedPod,
    ObservedPodMeta,
    ObservedPodSpec,
    ObservedPodStatus,
    ObservedResources,
    ObservedState,
    ObservedTermination,
)
from trellis.api.kube.pods import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from trellis.api.kube.workloads import StatefulSet, StatefulSetSpec
from trellis.base.errors import InvalidInput
from trellis.core.advice.survey.model import SurveyedWorkload
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.advice.survey.workloads import WorkloadInventory, find_workloads
from trellis.core.cluster.oom_kill_detection import OomKill

THEN = datetime(2026, 7, 1, tzinfo=UTC)


def owner(kind: str, name: str, api_version: str = "apps/v1") -> tuple[OwnerReference, ...]:
    return (OwnerReference(api_version, kind, name, "", True),)


def pod(
    name: str,
    owners: tuple[OwnerReference, ...] = (),
    *,
    requests: tuple[str, str] = ("1", "1Gi"),
    labels: dict[str, str] | None = None,
    phase: str = "Running",
    **status: Any,
) -> ObservedPod:
    resources = ObservedResources(requests=ObservedAmounts(*requests))
    return ObservedPod(
        ObservedPodMeta(name=name, namespace="shop", owner_references=owners, labels=labels or {}),
        ObservedPodSpec(containers=(ObservedContainer("app", resources),)),
        ObservedPodStatus(phase=phase, **status),
    )


def made(name: str, owners: tuple[OwnerReference, ...] = (), labels: dict[str, str] | None = None) -> KubeObject:
    return KubeObject(ObjectMeta(name=name, namespace="shop", owner_references=owners, labels=labels or {}))


def find_all(
    choice: WorkloadFilter = WorkloadFilter(),  # noqa: B008 - frozen
    *,
    pods: tuple[ObservedPod, ...] = (),
    **workloads: list[KubeObject],
) -> WorkloadInventory:
    return find_workloads(SurveyObjects(pods=pods, workloads=workloads), choice)


def named(what: WorkloadInventory) -> list[str]:
    return [f"{workload.kind} {workload.name}" for workload in what.workloads.values()]


def only(what: WorkloadInventory) -> SurveyedWorkload:
    [workload] = what.workloads.values()
    return workload


def test_controllers_are_followed_to_the_one_with_the_template() -> None:
    rollout = owner("Rollout", "canary", "argoproj.io/v1alpha1")
    workloads = find_all(
        pods=(
            pod("a", owner("ReplicaSet", "web-1")),
            pod("b", owner("ReplicaSet", "canary-1")),
            pod("c", owner("StatefulSet", "db")),
            pod("d", owner("Job", "nightly-29305610", "batch/v1")),
            pod("e", owner("DaemonSet", "agent")),
            pod("f"),
            pod("g", owner("Node", "node-1", "v1")),
            pod("h", owner("TaskRun", "build", "tekton.dev/v1")),
        ),
        ReplicaSet=[made("web-1", owner("Deployment", "web")), made("canary-1", rollout)],
        Deployment=[made("web")],
        StatefulSet=[made("db", owner("Prometheus", "operated", "monitoring.coreos.com/v1"))],
        Job=[made("nightly-29305610", owner("CronJob", "nightly", "batch/v1"))],
        CronJob=[made("nightly")],
        DaemonSet=[made("agent")],
    )
    assert named(workloads) == [
        "CronJob nightly",
        "DaemonSet agent",
        "Deployment web",
        "Pod f",
        "Pod g",
        "Rollout canary",
        "StatefulSet db",
        "TaskRun build",
    ]
    assert workloads.pods["shop", "b"] == "Rollout/canary"
    assert workloads.workloads["shop", "Rollout/canary"].api_version == "argoproj.io/v1alpha1"


@pytest.mark.parametrize(
    ("made_by", "labels", "is_of"),
    [
        (owner("ReplicaSet", "web-7d4b9c6f5d"), {"pod-template-hash": "7d4b9c6f5d"}, "Deployment web"),
        (owner("ReplicaSet", "web-7d4b9c6f5d"), {"rollouts-pod-template-hash": "7d4b9c6f5d"}, "Rollout web"),
        (owner("ReplicaSet", "web-7d4b9c6f5d"), {}, "Deployment web"),
        (owner("ReplicaSet", "standalone"), {"app": "x"}, "ReplicaSet standalone"),
        (owner("Job", "nightly-29305610"), {}, "CronJob nightly"),
        (owner("Job", "once"), {}, "Job once"),
    ],
)
def test_an_unreadable_owner_is_derived_from_names(
    made_by: tuple[OwnerReference, ...], labels: dict[str, str], is_of: str
) -> None:
    assert named(find_all(pods=(pod("a", made_by, labels=labels),))) == [is_of]


def test_jobs_with_the_same_label_are_one_workload() -> None:
    labels = {"pipeline": "etl"}
    jobs = [made(f"etl-{letter}", labels=labels) for letter in "abc"]
    pods = (pod("etl-a-x", owner("Job", "etl-a", "batch/v1")), pod("loner-x", owner("Job", "loner", "batch/v1")))
    grouped = find_all(WorkloadFilter.parse(job_labels=["team", "pipeline"]), pods=pods, Job=[*jobs, made("loner")])
    assert named(grouped) == ["Job loner", "Job etl"]
    etl = grouped.workloads["shop", "Job/pipeline=etl"]
    assert (etl.group, etl.members, etl.pods) == ("pipeline=etl", 3, 1)
    alone = find_all(pods=pods, Job=[*jobs, made("loner")])
    assert named(alone) == ["Job etl-a", "Job loner"], "Jobs that are over and alike to nobody are past"


def test_requests_are_those_that_most_pods_have() -> None:
    pods = (
        *(pod(name, owner("StatefulSet", "db")) for name in "ab"),
        pod("c", owner("StatefulSet", "db"), requests=("3", "")),
    )
    workload = only(find_all(pods=pods, StatefulSet=[made("db")]))
    [container] = workload.containers
    assert (container.request.cpu, container.differing) == (1000, 1)
    assert workload.pods == 3


def test_ended_pods_do_not_count_as_pods() -> None:
    pods = tuple(pod(name, owner("Job", "once"), phase=phase) for name, phase in (("a", "Running"), ("b", "Succeeded")))
    assert only(find_all(pods=pods, Job=[made("once")])).pods == 1
    over = tuple(pod(name, owner("Job", "once"), phase="Failed") for name in "ab")
    assert find_all(pods=over, Job=[made("once")]).workloads == {}


def test_kills_that_pods_show_are_reported() -> None:
    ended = ObservedState(terminated=ObservedTermination("OOMKilled", finished_at=THEN))
    status = ObservedContainerStatus("app", last_state=ended)
    what = find_all(
        pods=(pod("a", owner("StatefulSet", "db"), container_statuses=(status,)),), StatefulSet=[made("db")]
    )
    [kill] = what.kills
    assert (kill.pod, kill.container, kill.time, kill.memory) == ("a", "app", THEN.timestamp(), 2**30)


def test_a_kill_before_a_resize_has_the_memory_of_the_template() -> None:
    status = ObservedContainerStatus(
        "app", last_state=ObservedState(terminated=ObservedTermination("OOMKilled", finished_at=THEN))
    )
    grown = pod("a", owner("StatefulSet", "db"), requests=("1", "3Gi"), container_statuses=(status,))
    grown = msgspec.structs.replace(grown, metadata=msgspec.structs.replace(grown.metadata, generation=2))
    oom_kill = OomKill("shop", "a", "", "app", THEN.timestamp())
    resources = ResourceRequirements(requests={"memory": "2Gi"})
    template = PodTemplateSpec(spec=PodSpec(containers=(Container(name="app", resources=resources),)))
    db = StatefulSet(ObjectMeta(name="db", namespace="shop"), StatefulSetSpec(template=template))
    for objects, memory in (([db], 2 * 2.0**30), ([made("db")], 0.0)):
        present = SurveyObjects(pods=(grown,), workloads={"StatefulSet": objects}, kills=(oom_kill,))
        assert [kill.memory for kill in find_workloads(present, WorkloadFilter()).kills] == [memory, memory]


def test_label_selectors_match_labels_of_workloads_or_else_of_their_pods() -> None:
    def chosen(selector: str) -> list[str]:
        pods = (pod("a", owner("StatefulSet", "db"), labels={"tier": "pod"}), pod("b", labels={"tier": "bare"}))
        return named(
            find_all(
                WorkloadFilter.parse(selector=selector), pods=pods, StatefulSet=[made("db", labels={"tier": "data"})]
            )
        )

    assert chosen("tier=data") == ["StatefulSet db"]
    assert chosen("tier=bare") == ["Pod b"]
    assert chosen("tier in (data,bare)") == ["Pod b", "StatefulSet db"]
    assert chosen("tier=pod") == []


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        (["Deployment"], ["Deployment web"]),
        (["deploy", "sts"], ["Deployment web", "StatefulSet db"]),
        (["statefulsets"], ["StatefulSet db"]),
        (["rollout"], []),
    ],
)
def test_kinds_have_short_names_and_plurals(kinds: list[str], chosen: list[str]) -> None:
    what = find_all(WorkloadFilter.parse(kinds=kinds), Deployment=[made("web")], StatefulSet=[made("db")])
    assert named(what) == chosen


def test_an_invalid_filter_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is not a label key"):
        WorkloadFilter.parse(job_labels=["not a label!"])
    with pytest.raises(InvalidInput):
        WorkloadFilter.parse(selector="a in (")


def test_a_workload_without_pods_has_the_requests_of_its_template() -> None:
    from trellis.api.kube.pods import Container, PodSpec, PodTemplateSpec, ResourceRequirements
    from trellis.api.kube.workloads import Deployment, DeploymentSpec

    container = Container("app", resources=ResourceRequirements(requests={"cpu": "250m"}))
    template = PodTemplateSpec(spec=PodSpec(containers=(container,)))
    web = Deployment(ObjectMeta(name="web", namespace="shop"), DeploymentSpec(replicas=0, template=template))
    workload = only(find_all(Deployment=[web]))
    assert (workload.pods, workload.desired_replicas) == (0, 0)
    assert workload.containers[0].request.cpu == 250
    assert math.isnan(workload.containers[0].request.memory)
