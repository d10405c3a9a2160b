"""Previews what the updater will do to the running pods of a workload of which only manifests are known.

The plan is made for pods of the template, as they are when they run and are Ready, for each direction in which a
recommendation may move CPU and memory. No rule of the plan is repeated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Final

import msgspec

from trellis.api.kube.meta import Condition, OwnerReference, PodMeta
from trellis.api.kube.pods import READY, Pod, PodSpec, PodStatus
from trellis.api.resolve import UpdateMode
from trellis.base.reasons import Reason
from trellis.core.explain.counterfactuals import find_mode_with_skipped_budget
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping import RecommendedResources
from trellis.core.resize.actions import ControllerKey, DecisionKind, ResizePod
from trellis.core.resize.disruption_budget import TOO_FEW_REPLICAS, resolve_min_replicas
from trellis.core.resize.freeze import find_freeze
from trellis.core.resize.plan import UpdatePlan, plan_updates
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.view import PodView, WorkloadView
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import ContainerShape, PodShape

_NOW: Final = 1e9
# Older than any age under which a pod is left alone.
_STARTED: Final = datetime.fromtimestamp(0.0, UTC)
_GROUP: Final = ControllerKey("ReplicaSet", "example")
# What a recommendation makes of a request: twice as much, the same or half of it.
_CHANGES: Final = tuple(
    dict(zip(RESOURCES, factors, strict=True))
    for factors in product((2.0, 1.0, 0.5), repeat=2)
    if set(factors) != {1.0}
)
# In millicores and bytes, for containers that request nothing.
_UNREQUESTED: Final = {"cpu": 100, "memory": 2**27}


class UpdatePreview(msgspec.Struct, frozen=True):
    """The outcome of the updater's plan for a number of replicas.

    `resized` and `evicted` say that some change is made in that way. `restarting` are the resources whose resize
    restarts a container, `waiting` those whose change waits for more replicas. `held` is why nothing is done.
    `flag_mode` is the mode in which `--in-place-skip-disruption-budget` would have the pods resized, None where it
    would not help, and `allowed` what the plan answers where `minReplicas` is as low as the replicas.
    """

    replicas: int
    minimum: int
    resized: bool
    evicted: bool
    restarting: frozenset[str]
    waiting: frozenset[str]
    held: Reason | None = None
    details: str = ""
    flag_mode: UpdateMode | None = None
    needs_another_mode: bool = False
    allowed: UpdatePreview | None = None

    @property
    def acts(self) -> bool:
        """Whether running pods are changed at all."""
        return self.resized or self.evicted


class _PlannedChange(msgspec.Struct, frozen=True):
    """The plan for one change of a recommendation: `resources` are those that change."""

    resources: frozenset[str]
    plan: UpdatePlan

    @property
    def way(self) -> DecisionKind:
        ways = [decision.kind for decision in self.plan.decisions]
        return next((way for way in (DecisionKind.RESIZE, DecisionKind.EVICT) if way in ways), ways[0])

    @property
    def reason(self) -> Reason:
        return self.plan.decisions[0].reason

    @property
    def restarts(self) -> bool:
        return any(isinstance(action, ResizePod) and action.restarts for action in self.plan.actions)


def preview_updates(
    governor: Governor,
    spec: PodSpec,
    replicas: int,
    annotations: Mapping[str, str],
    settings: UpdateSettings | None = None,
) -> UpdatePreview:
    """Preview the updates of running pods of a spec; `annotations` are those of the object that sizes them."""
    updates = settings or UpdateSettings()
    minimum = resolve_min_replicas(governor.vpa.min_replicas, updates)
    count = min(replicas, max(minimum, 2))
    views = [
        (resources, _view(advised, spec, count, annotations)) for resources, advised in _vary_advice(governor, spec)
    ]
    changes = [_PlannedChange(resources, plan_updates(view, _NOW, updates)) for resources, view in views]
    # Where a resize fails, or takes too long, the plan answers as where the API server has no resizes.
    failing = msgspec.structs.replace(updates, resizes=False)
    evicted = any(
        _PlannedChange(resources, plan_updates(view, _NOW, failing)).way is DecisionKind.EVICT
        for resources, view in views
    )
    resized = any(change.way is DecisionKind.RESIZE for change in changes)
    few = [change for change in changes if change.reason is TOO_FEW_REPLICAS]
    preview = UpdatePreview(
        replicas,
        minimum,
        resized,
        evicted,
        _resources_changed_alone(changes, restarting=True),
        _resources_changed_alone(few),
    )
    if preview.acts:
        return preview
    unchanged = (few or changes)[0]
    flagged = (find_mode_with_skipped_budget(view, _NOW, updates) for _, view in views) if few else ()
    mode = next((mode for mode in flagged if mode is not None), None)
    return msgspec.structs.replace(
        preview,
        held=unchanged.reason,
        details=unchanged.plan.decisions[0].details,
        flag_mode=mode,
        needs_another_mode=mode is not None and mode is not governor.vpa.mode,
        allowed=preview_updates(_with_min_replicas(governor, replicas), spec, replicas, annotations, updates)
        if few
        else None,
    )


def _resources_changed_alone(changes: Iterable[_PlannedChange], *, restarting: bool = False) -> frozenset[str]:
    """The resources that are the only ones in one of these changes."""
    return frozenset(
        resource
        for change in changes
        if len(change.resources) == 1 and (change.restarts or not restarting)
        for resource in change.resources
    )


def _with_min_replicas(governor: Governor, minimum: int) -> Governor:
    return msgspec.structs.replace(governor, vpa=msgspec.structs.replace(governor.vpa, min_replicas=minimum))


def _vary_advice(governor: Governor, spec: PodSpec) -> Iterator[tuple[frozenset[str], Governor]]:
    """The governor with each kind of recommendation, and the resources that it changes."""
    containers = PodShape.from_spec(spec).containers
    for factors in _CHANGES:
        advice = tuple(_advice(container, factors) for container in containers)
        resources = frozenset(resource for resource, factor in factors.items() if factor != 1.0)
        yield resources, msgspec.structs.replace(governor, advice=advice)


def _advice(container: ContainerShape, factors: Mapping[str, float]) -> RecommendedResources:
    """A target outside of whose bounds the container is, wherever the target differs from its request."""
    target = {
        resource: max(int(container.requests.get(resource, _UNREQUESTED[resource]) * factor), 1)
        for resource, factor in factors.items()
    }
    return RecommendedResources(container.name, target, target, target)


def _view(governor: Governor, spec: PodSpec, count: int, annotations: Mapping[str, str]) -> WorkloadView:
    pods = tuple(PodView.from_pod(_running(spec, number)) for number in range(count))
    return WorkloadView(governor, pods, {_GROUP: count}, freeze=find_freeze(None, {}, annotations))


def _running(spec: PodSpec, number: int) -> Pod:
    owner = OwnerReference(kind=_GROUP.kind, name=_GROUP.name, controller=True)
    name = f"{_GROUP.name}-{number}"
    metadata = PodMeta(name=name, uid=name, creation_timestamp=_STARTED, owner_references=(owner,))
    ready = Condition(type=READY, status="True", last_transition_time=_STARTED)
    status = PodStatus(phase="Running", start_time=_STARTED, conditions=(ready,))
    return Pod(metadata=metadata, spec=msgspec.structs.replace(spec, node_name="example"), status=status)
