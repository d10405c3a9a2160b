"""An explanation of one object, and its parts about VPAs, pods and containers: codes, amounts and times.

Reports make sentences of them. Amounts are quantities as Kubernetes writes them, and times are RFC 3339. The fields
are part of the interface: they are what `--json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trellis.base.reasons import Reason
from trellis.core.explain.explanation.buffer import BufferPart
from trellis.core.explain.explanation.hvpa import HvpaPart
from trellis.core.explain.explanation.node import NodePart, PlacementPart
from trellis.core.explain.explanation.values import ExplanationPart, QuantityTexts
from trellis.core.explain.explanation.workload import WorkloadPart


class AmountChangePart(ExplanationPart, frozen=True):
    """Something that made another amount of one; without `before` there was none, without `after` there is none."""

    resource: str
    reason: Reason
    before: str = ""
    after: str = ""


class UsageCurvePart(ExplanationPart, frozen=True):
    """What was used of a resource, as some numbers to draw.

    `source` says what they are: `series` and `hours` are usage over time from `since` to `until`, in cores or bytes,
    null where nothing is known; `histogram` is how much of the samples' weight lies in even parts of what lies between
    `least` and `most`, which are quantities in any case.
    """

    resource: str
    source: str
    values: tuple[float | None, ...]
    least: str
    most: str
    since: str = ""
    until: str = ""


class ContainerRecommendationPart(ExplanationPart, frozen=True):
    """A container of a VPA. `decided` is what a pass of the recommender decided about it, in the recommender's words.

    `history` says where its usage comes from: a `checkpoint`, collected `series`, or what is used `now` alone.
    """

    name: str
    decided: Mapping[str, Any]
    steps: tuple[AmountChangePart, ...] = ()
    usage: tuple[UsageCurvePart, ...] = ()
    history: str = ""


class CounterfactualPart(ExplanationPart, frozen=True):
    """A change that would lead to another decision, as a code with its figures."""

    code: str
    values: Mapping[str, str | float | None] = {}


class BoostPart(ExplanationPart, frozen=True):
    """The boost of a container: where it stands and why, when it is over if that is known, and what it had before."""

    container: str
    phase: str
    reason: Reason
    until: str = ""
    before: Mapping[str, QuantityTexts] = {}


class ContainerSizePart(ExplanationPart, frozen=True):
    """A container of a pod: what it requests, what it should, and what lies between the recommendation and that."""

    container: str
    requests: QuantityTexts
    targets: QuantityTexts = {}
    steps: tuple[AmountChangePart, ...] = ()


class DisruptionBudgetPart(ExplanationPart, frozen=True):
    """Where the disruption budget of a pod's controller stands, if it was refused its turn for it."""

    configured: int
    living: int
    ready: int
    tolerated: int
    minimum: int


class PodPart(ExplanationPart, frozen=True):
    """A pod: the decision about it, what would have to change for another, and the time of the next check.

    `need` is the reason to change the pod, and `difference` the difference of its requests, as a share of them.
    """

    name: str
    by: str
    way: str
    reason: Reason
    node: str = ""
    details: str = ""
    need: Reason | None = None
    difference: float = 0.0
    warnings: tuple[Reason, ...] = ()
    next_check: str = ""
    containers: tuple[ContainerSizePart, ...] = ()
    counterfactuals: tuple[CounterfactualPart, ...] = ()
    boosts: tuple[BoostPart, ...] = ()
    budget: DisruptionBudgetPart | None = None


class NewPodPart(ExplanationPart, frozen=True):
    """A new pod of a workload, now: the decision, and the account of its size in the annotation."""

    workload: str
    reason: Reason
    warnings: tuple[str, ...] = ()
    account: Mapping[str, Any] = {}


class InfluencePart(ExplanationPart, frozen=True):
    """A related object that affects the decision, by kind and name, with its values."""

    kind: str
    name: str
    values: Mapping[str, Any] = {}


class MissingEvidencePart(ExplanationPart, frozen=True):
    """Evidence that could not be observed, and so is not part of the answer."""

    reason: Reason
    details: str = ""


class EventPart(ExplanationPart, frozen=True):
    """An Event about the object or one of its pods."""

    time: str
    about: str
    reason: str
    message: str
    count: int = 1


class VpaPart(ExplanationPart, frozen=True):
    """A VPA: its target and mode, and the conditions that the recommender computes."""

    name: str
    target: str
    mode: str
    recommender: str
    pods: int = 0
    is_answered: bool = True
    conditions: tuple[Mapping[str, Any], ...] = ()
    stored_conditions: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""
    rivals: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = {}
    failure: str = ""
    shadows_not_running: tuple[str, ...] = ()


class ObjectExplanation(ExplanationPart, frozen=True):
    """The answer about one VPA, Hvpa, Buffer, node, pod, recommendation or workload.

    `placement` is what is found for a Buffer, or for a pod that waits, where groups of nodes are known.
    """

    kind: str
    namespace: str
    name: str
    time: str
    vpa: VpaPart | None = None
    hvpa: HvpaPart | None = None
    buffer: BufferPart | None = None
    node: NodePart | None = None
    placement: PlacementPart | None = None
    workload: WorkloadPart | None = None
    containers: tuple[ContainerRecommendationPart, ...] = ()
    pods: tuple[PodPart, ...] = ()
    new_pods: tuple[NewPodPart, ...] = ()
    influences: tuple[InfluencePart, ...] = ()
    events: tuple[EventPart, ...] = ()
    missing: tuple[MissingEvidencePart, ...] = ()
    partial: bool = False
