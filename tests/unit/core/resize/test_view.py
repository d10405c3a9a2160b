"""What is read of a pod: the resources in force, as the kubelet reports them."""

from __future__ import annotations

from support.json_patch import apply_patch
from support.worlds.resizes import Document, container, decided, governor, pair, running
from trellis.api.resolve import UpdateMode
from trellis.core.resize.actions import ResizePod

POD_LIMITS = {"requests": {"cpu": "4", "memory": "4Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}


def with_pod_limits(cpu: str | None = "500m") -> Document:
    """A pod with limits of its own, whose container has none for CPU, as kubelet 1.36 reports it."""
    pod = running("web-1-a", container(cpu=cpu, limits={"memory": "2Gi"}), resources=POD_LIMITS)
    pod["status"]["containerStatuses"][0]["resources"]["limits"] = {"cpu": "4", "memory": "2Gi"}
    return pod


def resized(pod: Document) -> Document:
    plan = decided(governor(UpdateMode.IN_PLACE_OR_RECREATE), *pair(pod))
    (resize, *_) = plan.actions
    assert isinstance(resize, ResizePod)
    resources: Document = apply_patch(pod, resize.patch)["spec"]["containers"][0]["resources"]
    return resources


def test_the_limit_of_the_pod_that_is_reported_for_a_container_without_one_does_not_become_its_own() -> None:
    assert resized(with_pod_limits()) == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}


def test_the_limit_of_the_pod_is_not_taken_for_the_request_of_a_container_that_has_none() -> None:
    """Otherwise the pod would seem to request four times what is recommended."""
    pod = with_pod_limits(cpu=None)
    assert resized(pod) == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    plan = decided(governor(UpdateMode.IN_PLACE_OR_RECREATE), *pair(pod))
    need = plan.decisions[0].need
    assert need is not None
    assert need.reason.code == "RequestMissing"
