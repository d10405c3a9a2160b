"""Transforms cut pods without a difference to any plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import Pod
from trellis.core.boost.annotation import ANNOTATION_PREFIX
from trellis.core.fit import read_running_demand
from trellis.core.nodes.state.pods import is_daemon_or_mirror_pod, is_unschedulable
from trellis.runtime.cached_kinds import HVPA_PODS, OBSERVED_POD_KIND, PLACED_PODS, RESIZABLE_PODS
from trellis.runtime.shared_informers import CachedKind

SLICES = pytest.mark.parametrize("kind", [PLACED_PODS, RESIZABLE_PODS])


def transform_of(kind: CachedKind[Pod] = PLACED_PODS) -> Callable[[Pod], Pod]:
    assert kind.transform is not None
    return kind.transform()


CPU = st.sampled_from(["100m", "0.1", "2"])


def a_pod(name: str, asked: str = "100m", reported: dict[str, Any] | None = None, **more: Any) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    requests = {"cpu": asked, "memory": "1Gi"}
    status: dict[str, Any] = {"phase": "Running", "conditions": more.pop("conditions", [])}
    if reported is not None:
        status["containerStatuses"] = [{"name": "app", "image": "x", "ready": True, **reported}]
    return convert_object(
        {
            "metadata": {
                "name": name,
                "namespace": "shop",
                "uid": name,
                "resourceVersion": "7",
                "labels": {"app": "web"},
                "annotations": more.pop("annotations", {}),
                "ownerReferences": more.pop("owners", [owner]),
            },
            "spec": {"containers": [{"name": "app", "resources": {"requests": requests}}], "nodeName": "n", **more},
            "status": status,
        },
        Pod,
    )


@SLICES
@given(asked=CPU, allocated=CPU | st.none(), enforced=CPU | st.none(), infeasible=st.booleans())
def test_a_cached_pod_has_the_same_requests(
    kind: CachedKind[Pod], asked: str, allocated: str | None, enforced: str | None, infeasible: bool
) -> None:
    reported: dict[str, Any] = {"allocatedResources": {"cpu": allocated, "memory": "1Gi"} if allocated else {}}
    if enforced:
        reported["resources"] = {"requests": {"cpu": enforced, "memory": "1Gi"}}
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    pod = a_pod("web-1", asked, reported, conditions=[condition] if infeasible else [])
    assert read_running_demand(transform_of(kind)(pod)) == read_running_demand(pod)


def test_volumes_that_may_be_lost_are_known_by_name_and_tokens_make_no_two_pods_differ() -> None:
    transform = transform_of()
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    scratch = {"name": "scratch", "emptyDir": {}}
    pods = [
        transform(
            a_pod(
                f"web-{number}",
                annotations={key: "scratch", "other": "x"},
                volumes=[scratch, {"name": f"kube-api-access-{number}", "projected": {"sources": []}}],
            )
        )
        for number in range(2)
    ]
    assert [volume.name for volume in pods[0].spec.volumes] == ["scratch", ""]
    assert pods[0].spec.volumes is pods[1].spec.volumes
    assert pods[0].metadata.annotations == {key: "scratch"}


def test_values_shared_by_pods_of_a_workload_are_stored_once() -> None:
    transform = transform_of()
    pods = [transform(a_pod(f"web-{number}", reported={"restartCount": number})) for number in range(2)]
    assert pods[0].spec.containers is pods[1].spec.containers
    assert pods[0].metadata.labels is pods[1].metadata.labels
    assert pods[0].metadata.owner_references is pods[1].metadata.owner_references
    assert [pod.metadata.name for pod in pods] == ["web-0", "web-1"]
    assert not pods[0].status.container_statuses


def test_volumes_of_a_single_pod_are_kept() -> None:
    transform = transform_of()
    claims = [[{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}] for number in range(2)]
    pods = [transform(a_pod(f"db-{number}", volumes=claim)) for number, claim in enumerate(claims)]
    names = [pod.spec.volumes[0].persistent_volume_claim for pod in pods]
    assert [name.claim_name for name in names if name is not None] == ["data-0", "data-1"]
    assert pods[0].spec.containers is pods[1].spec.containers


def test_what_holds_a_pod_to_its_node_is_kept() -> None:
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "example.com/note": "long"}
    pod = transform_of()(a_pod("web-1", annotations=annotations))
    assert list(pod.metadata.annotations) == ["cluster-autoscaler.kubernetes.io/safe-to-evict"]
    mirror = transform_of()(a_pod("etcd", annotations={"kubernetes.io/config.mirror": "x"}, owners=[]))
    assert is_daemon_or_mirror_pod(mirror)


def test_that_a_pod_has_no_node_is_kept() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes"}
    assert is_unschedulable(transform_of()(a_pod("web-1", nodeName="", conditions=[condition])))


def test_what_a_pod_was_before_its_boost_is_kept_and_other_annotations_are_not() -> None:
    annotations = {f"{ANNOTATION_PREFIX}app": "{}", "example.com/long": "x" * 1000}
    assert transform_of()(a_pod("web", annotations=annotations)).metadata.annotations == {
        f"{ANNOTATION_PREFIX}app": "{}"
    }


PHASES = st.sampled_from(["Running", "Failed", "Succeeded"])
TIMES = st.sampled_from(["2027-01-15T08:00:00Z", "2027-01-15T08:05:00Z"])
ENDED: dict[str, Any] = {
    "terminated": {"reason": "OOMKilled", "startedAt": "2027-01-15T07:00:00Z", "finishedAt": "2027-01-15T07:30:00Z"}
}
STATES = st.sampled_from([{}, {"running": {"startedAt": "2027-01-15T08:01:00Z"}}, ENDED])
STATUSES = st.fixed_dictionaries(
    {"name": st.just("app"), "state": STATES, "lastState": st.sampled_from([{}, ENDED])},
    optional={"resources": st.just({"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}})},
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": st.sampled_from(["web-0", "web-1"]),
                "namespace": st.just("shop"),
                "uid": st.sampled_from(["a", "b"]),
                "resourceVersion": st.just("7"),
                "generation": st.integers(1, 2),
                "creationTimestamp": TIMES,
                "labels": st.dictionaries(st.just("app"), st.sampled_from(["web", "api"])),
                "annotations": st.just({f"{ANNOTATION_PREFIX}app": "{}"}) | st.just({}),
                "ownerReferences": st.just(
                    [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}]
                ),
            }
        ),
        "spec": st.fixed_dictionaries(
            {
                "nodeName": st.just("n"),
                "containers": st.lists(
                    st.fixed_dictionaries(
                        {
                            "name": st.just("app"),
                            "resources": st.sampled_from([{}, {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}]),
                            "resizePolicy": st.sampled_from(
                                [[], [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]]
                            ),
                        }
                    ),
                    min_size=1,
                    max_size=2,
                ),
            }
        ),
        "status": st.fixed_dictionaries(
            {
                "phase": PHASES,
                "startTime": TIMES,
                "conditions": st.sampled_from(
                    [[], [{"type": "Ready", "status": "True"}], [{"type": "Ready", "status": "False"}]]
                ),
                "containerStatuses": st.lists(STATUSES, max_size=1),
            }
        ),
    }
)


@pytest.mark.parametrize("other", [OBSERVED_POD_KIND, HVPA_PODS])
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_what_is_made_of_a_shared_slice_is_what_its_reader_would_have_decoded(
    other: CachedKind[Any], documents: list[dict[str, Any]]
) -> None:
    """Several pods of one workload in turn, because what they share is made once."""
    transform = transform_of(RESIZABLE_PODS)
    projection = RESIZABLE_PODS.project(other)
    assert projection is not None
    project = projection.make()
    for document in documents:
        made = project(transform(convert_object(document, Pod)))
        assert made == convert_object(document, other.resource.struct)
