"""Scheduling constraints of a pod: tolerations, affinity, topology spread, resource claims and scheduling gates.

Complete for what the scheduler filters by, because a pod's spec is also written into a Buffer's status for the node
autoscaler that provisions it: a rule missing here would be a rule missing there.
"""

from __future__ import annotations

import msgspec

from trellis.api.kube.meta import LabelSelector, LabelSelectorRequirement
from trellis.api.kube.slices import Slice

# Kubernetes' names for these two say when the rule holds; so far there is only one such time.
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Toleration(Slice, frozen=True):
    """A taint that the pod tolerates. An empty `key` with `Exists` tolerates every taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorTerm(Slice, frozen=True):
    """All of it must hold. Operators are those of label selectors, Gt and Lt. Empty matches no node."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_fields: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelector(Slice, frozen=True):
    """One of the terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Slice, frozen=True):
    """A preference for nodes, with its weight from 1 to 100."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Slice, frozen=True):
    """The nodes that a pod requires and prefers."""

    required: NodeSelector | None = msgspec.field(name=_REQUIRED, default=None)
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(name=_PREFERRED, default=())


class PodAffinityTerm(Slice, frozen=True):
    """Near, or away from, the pods that match, within one topology domain.

    Without `namespaces` and `namespace_selector` it means the pod's own namespace; an empty selector means
    all.
    """

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Slice, frozen=True):
    """A preference about other pods, with its weight from 1 to 100."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Slice, frozen=True):
    """The pods that a pod requires and prefers nearby; `podAntiAffinity` has the same form."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(name=_REQUIRED, default=())
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(name=_PREFERRED, default=())


class Affinity(Slice, frozen=True):
    """All affinity rules of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Slice, frozen=True):
    """How unevenly matching pods may lie over the domains of `topology_key`."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Slice, frozen=True):
    """A gate: while a pod has one, scheduler and node autoscaler ignore it."""

    name: str = ""


class PodResourceClaim(Slice, frozen=True):
    """A claim for a device (DRA): by name, or made from a template for this pod."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodResourceClaimStatus(Slice, frozen=True):
    """The claim that was made from a template for a pod; without a name, none was needed."""

    name: str = ""
    resource_claim_name: str = ""
