"""What could not be seen, and so is not part of the answer? Said, because silence would be taken for "nothing"."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from trellis.api.kinds import BUFFER, HVPA
from trellis.base.reason import Reason, Severity
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Container, PodPart, Unseen
from trellis.core.model.dump_lines import NODE_GROUPS, NOT_SERVED, Missing
from trellis.core.resize.inplace import Way

ATTEMPTS_UNSEEN = Reason(
    "AttemptsUnseen", "What became of the updater's earlier attempts is known to its process alone, and not looked at."
)
SAMPLES_UNSEEN = Reason(
    "SamplesUnseen",
    "Usage since the last checkpoint is known to the recommender's process alone, so that it may be ahead.",
)
ROOM_UNSEEN = Reason(
    "RoomUnseen", "Whether a new pod would fit some node is not looked at: not all nodes and pods could be seen."
)
ADMISSION_UNSEEN = Reason(
    "AdmissionUnseen", "Whether somebody sizes new pods could not be seen, and is taken for granted."
)
FLAGS_UNSEEN = Reason(
    "FlagsUnseen", "The flags of a component could not be seen, so that its defaults are taken for granted."
)
FLAG_UNREADABLE = Reason(
    "FlagUnreadable", "A flag of a component could not be read, so that its default stands for it.", Severity.WARNING
)
OBJECTS_UNSEEN = Reason("ObjectsUnseen", "Some objects could not be read.", Severity.WARNING)
DUMP_CUT_OFF = Reason("DumpCutOff", "The dump is cut off: what came after its last line is missing.", Severity.WARNING)
CHECKPOINT_UNREADABLE = Reason(
    "CheckpointUnreadable", "A checkpoint could not be read, so that its history is missing.", Severity.WARNING
)
RECOMMENDER_ELSEWHERE = Reason(
    "RecommenderElsewhere",
    "The recommender that the object names is none that can be asked here: only its status is told.",
)
SCALING_UNSEEN = Reason(
    "ScalingUnseen",
    "What the Hvpa controller remembers is known to its process alone: here windows begin anew, and no wish is read.",
)
TEMPLATE_UNSEEN = Reason(
    "TemplateUnseen",
    "What the API server would make of a pod of the template is not asked: it is taken as it is written.",
)
TARGET_KINDS_UNSEEN = Reason(
    "TargetKindsUnseen", "Kinds of targets that other packages know are read by the Buffer controller alone."
)
USAGE_UNSEEN = Reason("UsageUnseen", "Nothing is known of what containers use now.", Severity.WARNING)

# Of these, where they are missing, the whole cluster is concerned.
_ABOUT_COMPONENTS: Final = ("ConfigMap", "Lease", "Deployments of components")
# Kinds that decide about nodes alone.
_ABOUT_NODES: Final = frozenset({"PersistentVolumeClaim", "PersistentVolume", "StorageClass", NODE_GROUPS})
# Kinds without which nothing is missing: where they are not served, there are none.
_OPTIONAL: Final = (HVPA.name, BUFFER.name)
_COMPONENTS: Final = ("recommender", "updater", "admission-controller")


def unseen_by(
    evidence: Evidence, containers: tuple[Container, ...], pods: tuple[PodPart, ...], *, verdicts: bool
) -> Iterator[Unseen]:
    """All of it, what makes an answer partial first; without `verdicts`, only what concerns recommendations."""
    collected, recommended = evidence.collected, evidence.recommended
    yield from unseen_objects(evidence)
    for name, why in sorted(recommended.unread.items()):
        yield Unseen(CHECKPOINT_UNREADABLE, f"{name}: {why}")
    for problem in evidence.components.problems:
        yield Unseen(FLAG_UNREADABLE, problem)
    if containers and not len(collected.usage) and not collected.history:
        yield Unseen(USAGE_UNSEEN)
    flagless = [name for name in _COMPONENTS if name not in evidence.components.seen]
    if flagless:
        yield Unseen(FLAGS_UNSEEN, ", ".join(flagless))
    if any(each.history == "checkpoint" for each in containers):
        yield Unseen(SAMPLES_UNSEEN)
    if verdicts and evidence.updated.plans:
        yield Unseen(ATTEMPTS_UNSEEN)
        if not evidence.updated.rooms and any(pod.way == Way.EVICT.value for pod in pods):
            yield Unseen(ROOM_UNSEEN)
        if evidence.updated.sized is None:
            yield Unseen(ADMISSION_UNSEEN)


def unseen_objects(evidence: Evidence, without: Collection[str] = ()) -> Iterator[Unseen]:
    """Objects that are not there, but for kinds that have no say."""
    if not evidence.collected.is_whole:
        yield Unseen(DUMP_CUT_OFF)
    for missing in _missing(evidence):
        kind = missing.what.partition(" ")[0]
        if kind not in without and kind not in _ABOUT_NODES:
            yield Unseen(OBJECTS_UNSEEN, str(missing))


def _missing(evidence: Evidence) -> Iterator[Missing]:
    """What is missing of the namespace, and of the components wherever they are."""
    for each in evidence.collected.missing:
        if each.why == NOT_SERVED and each.what in _OPTIONAL:
            continue
        if each.where in ("", evidence.namespace) or each.what.startswith(_ABOUT_COMPONENTS):
            yield each


def is_partial(unseen: tuple[Unseen, ...]) -> bool:
    """Whether something is missing that should have been there."""
    return any(each.reason.severity is not Severity.INFO for each in unseen)
