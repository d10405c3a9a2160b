"""Parts about a workload: what sizes its pods, what decides its replica count, and the spare capacity for it."""

from __future__ import annotations

from trellis.core.explain.explanation.buffer import BufferPart
from trellis.core.explain.explanation.values import ExplanationPart, QuantityTexts


class TemplateContainerPart(ExplanationPart, frozen=True):
    """A container of the pod template: its requests and limits, and what its VPA's status recommends."""

    container: str
    requests: QuantityTexts
    limits: QuantityTexts = {}
    recommended: QuantityTexts = {}


class WorkloadPart(ExplanationPart, frozen=True):
    """A workload. `replicas` is what its spec asks for, None where its kind has no count.

    `counted_by` are the objects that write the count. `idle_vpas` name the workload as their target and govern none of
    its pods. `asked` is the object that was asked about, if that is another one: a ReplicaSet of the Deployment.
    """

    kind: str
    name: str
    asked: str = ""
    replicas: int | None = None
    ready: int | None = None
    counted_by: tuple[str, ...] = ()
    idle_vpas: tuple[str, ...] = ()
    containers: tuple[TemplateContainerPart, ...] = ()
    buffers: tuple[BufferPart, ...] = ()
