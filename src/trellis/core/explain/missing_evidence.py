"""Evidence that is missing, and so is not part of an explanation.

It is listed because silence would be taken for "nothing".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from trellis.api.registry import BUFFER, HVPA
from trellis.base.reasons import Reason, Severity
from trellis.core.cluster.dump_format import DEVICE_KINDS, NODE_GROUPS, NOT_SERVED, MissingData
from trellis.core.cluster.state import ClusterState
from trellis.core.explain.component_decisions.evidence import Evidence
from trellis.core.explain.component_decisions.node_plans import KnownNodeGroups, NodeEvidence
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.explain.explanation.document import ContainerRecommendationPart, MissingEvidencePart, PodPart
from trellis.core.resize.actions import DecisionKind

ATTEMPTS_NOT_OBSERVED = Reason(
    "AttemptsNotObserved",
    "The updater's earlier attempts are known only to its process, and are not considered.",
)
SAMPLES_NOT_OBSERVED = Reason(
    "SamplesNotObserved",
    "Usage since the last checkpoint is known only to the recommender's process, whose recommendation may be newer.",
)
CAPACITY_NOT_OBSERVED = Reason(
    "CapacityNotObserved",
    "Whether a new pod fits on a node is not checked, because not all nodes and pods could be read.",
)
ADMISSION_NOT_OBSERVED = Reason(
    "AdmissionNotObserved", "Whether an admission controller runs could not be read; it is assumed to run."
)
FLAGS_NOT_OBSERVED = Reason("FlagsNotObserved", "The flags of a component could not be read; its defaults are assumed.")
FLAG_UNREADABLE = Reason(
    "FlagUnreadable", "A flag of a component is invalid; its default is assumed.", Severity.WARNING
)
OBJECTS_NOT_OBSERVED = Reason("ObjectsNotObserved", "Some objects could not be read.", Severity.WARNING)
DUMP_CUT_OFF = Reason("DumpCutOff", "The dump is truncated: what followed its last line is missing.", Severity.WARNING)
CHECKPOINT_UNREADABLE = Reason(
    "CheckpointUnreadable", "A checkpoint is invalid, so its history is missing.", Severity.WARNING
)
RECOMMENDER_NOT_AVAILABLE = Reason(
    "RecommenderNotAvailable",
    "The recommender that the object names is not available here: only its published status is shown.",
)
SCALING_NOT_OBSERVED = Reason(
    "ScalingNotObserved",
    "The state of the Hvpa controller is known only to its process: here stabilization windows "
    "start now, and no new HPA demand is read.",
)
TEMPLATE_NOT_OBSERVED = Reason(
    "TemplateNotObserved",
    "Defaults that the API server would set in a pod of the template are not applied.",
)
TARGET_KINDS_NOT_OBSERVED = Reason(
    "TargetKindsNotObserved", "Kinds of targets added by other packages are read only by the Buffer controller."
)
USAGE_NOT_OBSERVED = Reason("UsageNotObserved", "The current usage of containers is unknown.", Severity.WARNING)

# Of these, where they are missing, the whole cluster is concerned.
_ABOUT_COMPONENTS: Final = ("ConfigMap", "Lease", "Deployments of components")
# Kinds that decide about nodes alone.
_ABOUT_NODES: Final = frozenset(
    {"PersistentVolumeClaim", "PersistentVolume", "StorageClass", NODE_GROUPS, *DEVICE_KINDS}
)
# Kinds without which nothing is missing: where they are not served, there are none.
_OPTIONAL: Final = (HVPA.name, BUFFER.name)
_COMPONENTS: Final = ("recommender", "updater", "admission-controller")


def find_missing_evidence(
    evidence: Evidence,
    containers: tuple[ContainerRecommendationPart, ...],
    pods: tuple[PodPart, ...],
    *,
    with_decisions: bool,
) -> Iterator[MissingEvidencePart]:
    """All missing evidence, the most serious first; without `with_decisions`, that of recommendations alone."""
    collected, recommended = evidence.collected, evidence.recommended
    yield from find_missing_objects(evidence)
    for name, error in sorted(recommended.unreadable.items()):
        yield MissingEvidencePart(CHECKPOINT_UNREADABLE, f"{name}: {error}")
    for problem in evidence.components.problems:
        yield MissingEvidencePart(FLAG_UNREADABLE, problem)
    if containers and not len(collected.usage) and not collected.history:
        yield MissingEvidencePart(USAGE_NOT_OBSERVED)
    flagless = [name for name in _COMPONENTS if name not in evidence.components.with_flags]
    if flagless:
        yield MissingEvidencePart(FLAGS_NOT_OBSERVED, ", ".join(flagless))
    if any(container.history == "checkpoint" for container in containers):
        yield MissingEvidencePart(SAMPLES_NOT_OBSERVED)
    if with_decisions and evidence.updated.plans:
        yield MissingEvidencePart(ATTEMPTS_NOT_OBSERVED)
        if not evidence.updated.has_headroom and any(pod.way == DecisionKind.EVICT.value for pod in pods):
            yield MissingEvidencePart(CAPACITY_NOT_OBSERVED)
        if evidence.updated.sized is None:
            yield MissingEvidencePart(ADMISSION_NOT_OBSERVED)


def find_missing_objects(evidence: Evidence, without: Collection[str] = ()) -> Iterator[MissingEvidencePart]:
    """Missing objects, except for the kinds in `without`."""
    if not evidence.collected.is_complete:
        yield MissingEvidencePart(DUMP_CUT_OFF)
    for missing in _list_missing_data(evidence):
        kind = missing.what.partition(" ")[0]
        if kind not in without and kind not in _ABOUT_NODES:
            yield MissingEvidencePart(OBJECTS_NOT_OBSERVED, str(missing))


def _list_missing_data(evidence: Evidence) -> Iterator[MissingData]:
    """What is missing of the namespace, and of the components wherever they are."""
    for missing in evidence.collected.missing:
        if missing.why == NOT_SERVED and missing.what in _OPTIONAL:
            continue
        if missing.where in ("", evidence.namespace) or missing.what.startswith(_ABOUT_COMPONENTS):
            yield missing


def is_partial(missing: tuple[MissingEvidencePart, ...]) -> bool:
    """Whether something is missing that should have been there."""
    return any(part.reason.severity is not Severity.INFO for part in missing)


REMOVALS_NOT_OBSERVED = Reason(
    "RemovalsNotObserved",
    "How long nodes have been unneeded, and which removals failed, is known only to the node "
    "autoscaler's process: here unneeded times begin now, and no removal has failed.",
)
PLACEMENT_NOT_OBSERVED = Reason(
    "PlacementNotObserved",
    "Earlier placements of chunks, and failed node groups, are known only to the node "
    "autoscaler's process: this answer assumes none.",
)
NODE_GROUPS_NOT_OBSERVED = Reason(
    "NodeGroupsNotObserved",
    "No declaration of node groups was found: every node is treated as one outside node groups.",
)
GROUP_UNREADABLE = Reason("NodeGroupUnreadable", "A node group is invalid and is ignored.", Severity.WARNING)
NODES_NOT_OBSERVED = Reason(
    "NodesNotObserved",
    "Decisions about nodes are not shown, because not all nodes and pods could be read.",
    Severity.WARNING,
)
OBJECT_UNREADABLE = Reason(
    "ObjectUnreadable", "The node requirements of an object are invalid, so it is ignored.", Severity.WARNING
)

_COMPONENT: Final = "nodes"
_CLAIMED: Final = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", *DEVICE_KINDS)
# What decides about nodes, wherever it is; what is not served of the first, there is none of.
_RELEVANT_KINDS: Final = (
    BUFFER.name,
    "Node",
    "Pod",
    "Namespace",
    "DaemonSet",
    "PodDisruptionBudget",
    NODE_GROUPS,
    "Deployments",
    *_CLAIMED,
)


def find_missing_node_evidence(
    collected: ClusterState, groups: KnownNodeGroups, components: CollectedSettings, node_evidence: NodeEvidence | None
) -> Iterator[MissingEvidencePart]:
    """All missing evidence of an answer about a node."""
    if not collected.is_complete:
        yield MissingEvidencePart(DUMP_CUT_OFF)
    for missing in collected.missing:
        is_none = missing.why == NOT_SERVED and missing.what in (BUFFER.name, *DEVICE_KINDS)
        if missing.what.partition(" ")[0] in _RELEVANT_KINDS and not is_none:
            yield MissingEvidencePart(OBJECTS_NOT_OBSERVED, str(missing))
    for problem in components.problems:
        yield MissingEvidencePart(FLAG_UNREADABLE, problem)
    if node_evidence is None:
        yield from _find_missing_group_evidence(groups)
        yield MissingEvidencePart(NODES_NOT_OBSERVED)
    else:
        yield from _find_missing_plan_evidence(node_evidence)
        yield MissingEvidencePart(REMOVALS_NOT_OBSERVED)


def find_missing_placement_evidence(
    collected: ClusterState, node_evidence: NodeEvidence | None
) -> Iterator[MissingEvidencePart]:
    """What an explanation of a pod or Buffer that needs a node lacks, beside what every explanation lacks."""
    for missing in collected.missing:
        is_none = missing.why == NOT_SERVED and missing.what in DEVICE_KINDS
        is_claimed = node_evidence is not None and missing.what.partition(" ")[0] in _CLAIMED
        if missing.what == NODE_GROUPS or (is_claimed and not is_none):
            yield MissingEvidencePart(OBJECTS_NOT_OBSERVED, str(missing))
    if node_evidence is not None:
        yield from _find_missing_plan_evidence(node_evidence)
        yield MissingEvidencePart(PLACEMENT_NOT_OBSERVED)


def _find_missing_plan_evidence(node_evidence: NodeEvidence) -> Iterator[MissingEvidencePart]:
    yield from _find_missing_group_evidence(node_evidence.groups)
    if _COMPONENT not in node_evidence.components.with_flags:
        yield MissingEvidencePart(FLAGS_NOT_OBSERVED, _COMPONENT)
    for (kind, key), problem in node_evidence.snapshot.problems.items():
        yield MissingEvidencePart(OBJECT_UNREADABLE, f"{kind} {'/'.join(key)}: {problem}")


def _find_missing_group_evidence(groups: KnownNodeGroups) -> Iterator[MissingEvidencePart]:
    if not groups.declared:
        yield MissingEvidencePart(NODE_GROUPS_NOT_OBSERVED)
    for group, problem in groups.problems:
        yield MissingEvidencePart(GROUP_UNREADABLE, f"{group}: {problem}" if group else str(problem))
