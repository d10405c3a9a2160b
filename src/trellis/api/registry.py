"""The registry of our own kinds: group, version, names, printer columns, scale subresource and rules.

Validation, CRDs, `trellis check` and the reference pages all read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.api.kinds.buffer import Buffer, BufferSpec, BufferStatus
from trellis.api.kinds.checkpoint import CheckpointSpec, CheckpointStatus, VerticalPodAutoscalerCheckpoint
from trellis.api.kinds.claim_node_group import ClaimNodeGroup, ClaimNodeGroupSpec
from trellis.api.kinds.hvpa import Hvpa, HvpaSpec, HvpaStatus
from trellis.api.kinds.kwok_node_group import KwokNodeGroup, KwokNodeGroupSpec
from trellis.api.kinds.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerSpec, VerticalPodAutoscalerStatus
from trellis.api.rules import buffer, claim_node_group, hvpa, kwok_node_group, scenario, vpa
from trellis.api.scenario.spec import Scenario, ScenarioSpec
from trellis.api.schema.fields import Rule


class PrinterColumn(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; priority 1 shows with `-o wide` alone."""

    name: str
    type: str
    path: str
    description: str = ""
    priority: int = 0


class ScaleSubresource(msgspec.Struct, frozen=True):
    """The JSON paths of the scale subresource."""

    spec_replicas: str
    status_replicas: str
    selector: str | None = None


class Kind(msgspec.Struct, frozen=True, eq=False):
    """One kind: names, structs, columns and subresources. Without a `status` it is a file format."""

    group: str
    version: str
    name: str
    plural: str
    short_names: tuple[str, ...]
    struct: type[msgspec.Struct]
    spec: type[msgspec.Struct]
    status: type[msgspec.Struct] | None
    spec_required: bool = True
    status_subresource: bool = True
    scale: ScaleSubresource | None = None
    columns: tuple[PrinterColumn, ...] = ()
    # Versions that objects may still be stored under; kept in the CRD, served no more.
    retired_versions: tuple[str, ...] = ()
    # The review that allows a CRD in a protected group; the API server wants it as an annotation.
    approval: str | None = None

    @property
    def api_version(self) -> str:
        """Group and version as a manifest spells them."""
        return f"{self.group}/{self.version}"

    @property
    def doc(self) -> str:
        """The description of the kind, from its struct."""
        return (self.struct.__doc__ or "").strip()


_VPA_APPROVAL = "https://github.com/kubernetes/kubernetes/pull/63797"
_FIRST_TARGET = ".status.recommendation.containerRecommendations[0].target"
_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")

VPA = Kind(
    group="autoscaling.k8s.io",
    version="v1",
    name="VerticalPodAutoscaler",
    plural="verticalpodautoscalers",
    short_names=("vpa",),
    struct=VerticalPodAutoscaler,
    spec=VerticalPodAutoscalerSpec,
    status=VerticalPodAutoscalerStatus,
    retired_versions=("v1beta2",),
    approval=_VPA_APPROVAL,
    columns=(
        PrinterColumn("Mode", "string", ".spec.updatePolicy.updateMode"),
        PrinterColumn("CPU", "string", f"{_FIRST_TARGET}.cpu"),
        PrinterColumn("Mem", "string", f"{_FIRST_TARGET}.memory"),
        PrinterColumn("Provided", "string", ".status.conditions[?(@.type=='RecommendationProvided')].status"),
        _AGE,
        PrinterColumn("MinReplicas", "integer", ".spec.updatePolicy.minReplicas", priority=1),
        PrinterColumn("OOMSeconds", "integer", ".spec.updatePolicy.evictAfterOOMSeconds", priority=1),
    ),
)
CHECKPOINT = Kind(
    group="autoscaling.k8s.io",
    version="v1",
    name="VerticalPodAutoscalerCheckpoint",
    plural="verticalpodautoscalercheckpoints",
    short_names=("vpacheckpoint",),
    struct=VerticalPodAutoscalerCheckpoint,
    spec=CheckpointSpec,
    status=CheckpointStatus,
    spec_required=False,
    # Spec and status are written together, as upstream does.
    status_subresource=False,
    retired_versions=("v1beta2",),
    approval=_VPA_APPROVAL,
)
HVPA = Kind(
    group="autoscaling.x-k8s.io",
    version="v1alpha1",
    name="Hvpa",
    plural="hvpas",
    short_names=("hvpa",),
    struct=Hvpa,
    spec=HvpaSpec,
    status=HvpaStatus,
    scale=ScaleSubresource(".spec.replicas", ".status.replicas", ".status.selector"),
    columns=(
        PrinterColumn("Target", "string", ".spec.targetRef.name"),
        PrinterColumn("Replicas", "integer", ".status.replicas"),
        PrinterColumn("CPU", "string", f"{_FIRST_TARGET}.cpu"),
        PrinterColumn("Mem", "string", f"{_FIRST_TARGET}.memory"),
        PrinterColumn("Blocked", "string", ".status.blocked[0].reason"),
        PrinterColumn("Reason", "string", ".status.conditions[?(@.type=='Active')].reason"),
        _AGE,
        PrinterColumn("Wish", "integer", ".spec.replicas", priority=1),
        PrinterColumn("Kind", "string", ".spec.targetRef.kind", priority=1),
    ),
)
BUFFER = Kind(
    group="autoscaling.x-k8s.io",
    version="v1alpha1",
    name="Buffer",
    plural="buffers",
    short_names=("buf",),
    struct=Buffer,
    spec=BufferSpec,
    status=BufferStatus,
    scale=ScaleSubresource(
        ".spec.capacity.replicas.exactly", ".status.podBasedBufferSpec.replicaNum", ".status.selector"
    ),
    columns=(
        PrinterColumn("Target", "string", ".spec.targetRef.name"),
        PrinterColumn("Strategy", "string", ".spec.recreationStrategy"),
        PrinterColumn("Chunks", "integer", ".status.podBasedBufferSpec.replicaNum"),
        PrinterColumn("Ready", "string", ".status.conditions[?(@.type=='ReadyForProvisioning')].status"),
        PrinterColumn("Provisioned", "string", ".status.conditions[?(@.type=='Provisioned')].status"),
        _AGE,
        PrinterColumn("Last-Full", "date", ".status.lastFullyProvisioned", priority=1),
    ),
)
SCENARIO = Kind(
    group="sim.trellis.x-k8s.io",
    version="v1alpha1",
    name="Scenario",
    plural="scenarios",
    short_names=(),
    struct=Scenario,
    spec=ScenarioSpec,
    status=None,
)
KWOK_NODE_GROUP = Kind(
    group="nodes.trellis.x-k8s.io",
    version="v1alpha1",
    name="KwokNodeGroup",
    plural="kwoknodegroups",
    short_names=(),
    struct=KwokNodeGroup,
    spec=KwokNodeGroupSpec,
    status=None,
)
CLAIM_NODE_GROUP = Kind(
    group="nodes.trellis.x-k8s.io",
    version="v1alpha1",
    name="ClaimNodeGroup",
    plural="claimnodegroups",
    short_names=(),
    struct=ClaimNodeGroup,
    spec=ClaimNodeGroupSpec,
    status=None,
)
# What a cluster stores, and what only files hold: no CRD is made of the latter, and no API server asked about them.
KINDS = (VPA, CHECKPOINT, HVPA, BUFFER)
NODE_GROUP_KINDS = (KWOK_NODE_GROUP, CLAIM_NODE_GROUP)
FILE_KINDS = (SCENARIO, *NODE_GROUP_KINDS)
ALL_KINDS = (*KINDS, *FILE_KINDS)


def _rules_by_struct(*modules: tuple[Rule[Any], ...]) -> Mapping[type[msgspec.Struct], tuple[Rule[Any], ...]]:
    rules: dict[type[msgspec.Struct], tuple[Rule[Any], ...]] = {}
    for rule in (rule for module in modules for rule in module):
        rules[rule.on] = (*rules.get(rule.on, ()), rule)
    return rules


RULES = _rules_by_struct(
    vpa.VPA_RULES,
    hvpa.HVPA_RULES,
    buffer.BUFFER_RULES,
    scenario.SCENARIO_RULES,
    kwok_node_group.KWOK_NODE_GROUP_RULES,
    claim_node_group.CLAIM_NODE_GROUP_RULES,
)


def find_kind(api_version: str, name: str) -> Kind | None:
    """The kind of an object, if it is one of ours in a served version."""
    return next((kind for kind in ALL_KINDS if kind.api_version == api_version and kind.name == name), None)
