"""Which workloads are in a dump? Pods by their topmost controllers, each with its template.

The model of a cluster knows Deployments, StatefulSets and Jobs. What runs all the time and is neither, a DaemonSet or a
Rollout, is played as a Deployment. What runs to an end is left out: a dump does not say when it began and ended before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import LabelSelector, ObjectMeta
from trellis.api.kube.pods import Pod, PodSpec, PodTemplateSpec
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.api.kube.slices import IntOrString, Labels
from trellis.api.kube.workloads import DaemonSet
from trellis.base.counted import counted
from trellis.base.errors import InvalidSelector
from trellis.base.selectors import MatchExpression, selector_from_object
from trellis.core.model.collected import Collected
from trellis.core.model.keys import BY_NAMESPACE
from trellis.core.model.owners import Owners, TargetRef, controller_in

_OVER: Final = ("Succeeded", "Failed")
_TO_AN_END: Final = ("Job", "CronJob")
_NODE: Final = "Node"
_PLAYED: Final = ("Deployment", "StatefulSet")
_POD: Final = "Pod"
# Labels by which a controller tells its own pods apart; the model has its own.
_DRAWN: Final = ("pod-template-hash", "controller-revision-hash", "pod-template-generation")


class Found(msgspec.Struct, frozen=True):
    """A workload of a dump: what it is there, as what it is played, and which pods it has now."""

    target: TargetRef
    kind: str
    name: str
    replicas: int
    template: PodTemplateSpec
    pods: tuple[str, ...]
    max_unavailable: int | None = None

    @property
    def containers(self) -> tuple[str, ...]:
        """Those that run as long as a pod."""
        spec = self.template.spec
        return tuple(each.name for each in (*spec.containers, *filter(_is_sidecar, spec.init_containers)))


def find_workloads(collected: Collected) -> tuple[list[Found], list[str]]:
    """Those that can be played, in the order of their names, and a note on each sort of others."""
    owners = collected.owners
    groups: dict[TargetRef, list[Pod]] = {}
    left_out: Counter[str] = Counter()
    for pod in collected.pods:
        topmost = _topmost(pod, owners)
        if pod.status.phase in _OVER or pod.metadata.deletion_timestamp is not None:
            left_out["they are over or about to be"] += 1
        elif topmost.kind == _NODE:
            left_out["they belong to a node itself"] += 1
        elif topmost.kind in _TO_AN_END:
            left_out["they run to an end"] += 1
        else:
            groups.setdefault(topmost, []).append(pod)
    taken: set[tuple[str, str]] = set()
    found = []
    # Those that keep their kind first, so that they also keep their names.
    ordered = sorted(groups, key=lambda each: (each.namespace, each.kind not in _PLAYED, each.name, each.kind))
    for target in ordered:
        name = target.name
        while (target.namespace, name) in taken:
            name += f"-{target.kind.lower()}"
        taken.add((target.namespace, name))
        budgets = collected.pdbs.by(BY_NAMESPACE, target.namespace)
        found.append(_found(target, name, owners.find(target), groups[target], budgets))
    return found, [f"left out, because {what}: {counted(count, 'pod')}" for what, count in left_out.items()]


def template_document(found: Found) -> dict[str, Any]:
    """Its template as a manifest has it."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found.template, enc_hook=_mapped))
    return document


def _mapped(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value).__name__)


def _topmost(pod: Pod, owners: Owners) -> TargetRef:
    """What people mean by the pod: the topmost controller that is known, or the pod itself."""
    metadata = pod.metadata
    controller = controller_in(metadata.namespace, metadata.controller)
    if controller is None:
        return TargetRef(metadata.namespace, "v1", _POD, metadata.name)
    return owners.follow(controller).topmost or controller


def _found(target: TargetRef, name: str, owner: Any, pods: list[Pod], budgets: Iterable[PodDisruptionBudget]) -> Found:
    template = getattr(owner.spec, "template", None) if owner is not None else None
    template = template if isinstance(template, PodTemplateSpec) else _from_pod(pods[0])
    replicas = _replicas(owner) or len(pods)
    return Found(
        target=target,
        kind=target.kind if target.kind in _PLAYED else _PLAYED[0],
        name=name,
        replicas=replicas,
        template=template,
        pods=tuple(pod.metadata.name for pod in pods),
        max_unavailable=min(_allowed(pods[0].metadata.labels, replicas, budgets), default=None),
    )


def _replicas(owner: Any) -> int | None:
    if isinstance(owner, DaemonSet):
        return owner.status.desired_number_scheduled
    return getattr(owner.spec, "replicas", None) if owner is not None else None


def _from_pod(pod: Pod) -> PodTemplateSpec:
    """The template that a pod may have been made from: itself, without what it was given since."""
    labels = {key: value for key, value in pod.metadata.labels.items() if key not in _DRAWN}
    spec: PodSpec = msgspec.structs.replace(pod.spec, node_name="")
    return PodTemplateSpec(ObjectMeta(labels=labels, annotations=pod.metadata.annotations), spec)


def _allowed(labels: Labels, replicas: int, budgets: Iterable[PodDisruptionBudget]) -> Iterator[int]:
    """How many pods each budget over these labels lets go at a time; shares are rounded up, as Kubernetes does."""
    for budget in budgets:
        spec = budget.spec
        if spec.selector is None or not _selects(spec.selector, labels):
            continue
        if spec.max_unavailable is not None:
            yield _count(spec.max_unavailable, replicas)
        elif spec.min_available is not None:
            yield max(0, replicas - _count(spec.min_available, replicas))


def _selects(selector: LabelSelector, labels: Labels) -> bool:
    expressions = [MatchExpression(each.key, each.operator, each.values) for each in selector.match_expressions]
    try:
        return selector_from_object(selector.match_labels, expressions).matches(labels)
    except InvalidSelector:
        return False


def _count(written: IntOrString, replicas: int) -> int:
    if isinstance(written, int):
        return written
    share = written.removesuffix("%")
    return math.ceil(int(share) * replicas / 100) if share.isdecimal() else replicas


def _is_sidecar(container: Any) -> bool:
    return bool(container.is_sidecar)
