"""Cluster Autoscaler's ProvisioningRequest (autoscaling.x-k8s.io/v1), which queues such as Kueue create."""

from __future__ import annotations

from trellis.api.kube.meta import Condition, KubeObject, LocalObjectReference
from trellis.api.kube.slices import NOTHING, Labels, Slice


class RequestedPodSet(Slice, frozen=True):
    """Equal pods: their number, and their PodTemplate in the namespace of the request."""

    pod_template_ref: LocalObjectReference = LocalObjectReference()
    count: int = 0


class ProvisioningRequestSpec(Slice, frozen=True):
    """The pods that need capacity, and how it is provided. It cannot be changed."""

    pod_sets: tuple[RequestedPodSet, ...] = ()
    provisioning_class_name: str = ""
    parameters: Labels = NOTHING


class ProvisioningRequestStatus(Slice, frozen=True):
    """The conditions that an autoscaler writes."""

    conditions: tuple[Condition, ...] = ()


class ProvisioningRequest(KubeObject, frozen=True):
    """A request for the capacity of a set of pods, made once."""

    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()
