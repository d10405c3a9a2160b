"""Upstream's CapacityBuffer (autoscaling.x-k8s.io), read beside our own Buffer.

`v1beta1` and the deprecated `v1alpha1` have the same fields, so one slice reads both.
"""

from __future__ import annotations

from trellis.api.kube.meta import Condition, KubeObject, LocalObjectReference
from trellis.api.kube.slices import Quantities, Slice


class ScalableReference(Slice, frozen=True):
    """The workload a buffer is kept for: a group without a version, as discovery resolves it."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(Slice, frozen=True):
    """Everything is optional upstream, and absent differs from zero: an absent size is not asked for."""

    provisioning_strategy: str | None = None
    pod_template_ref: LocalObjectReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: Quantities | None = None


class CapacityBufferStatus(Slice, frozen=True):
    """`replicas` is the number wanted after limits and quotas, not the number there is.

    `pod_template_ref` names a template that the translating controller keeps, not the one in the spec.
    """

    pod_template_ref: LocalObjectReference | None = None
    replicas: int | None = None
    pod_template_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    provisioning_strategy: str | None = None


class CapacityBuffer(KubeObject, frozen=True):
    """A capacity buffer."""

    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = CapacityBufferStatus()
