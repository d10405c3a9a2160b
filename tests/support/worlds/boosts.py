"""A pod's start and the end of its boost, as admission and updater will bring them about, without either.

`start` makes a pod as it is admitted, `end` gives it what is due at some moment. Both go through the pod's JSON, so
that nothing is remembered but what a pod remembers. CPU is told in millicores, as (request, limit).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.policies import LimitRange
from trellis.api.resolve import EffectiveVpa, UpdateMode, resolve_vpa
from trellis.core.boost.annotation import annotation_key, read_pre_boost_resources
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling, PodBoost, boost_pod
from trellis.core.boost.phases import PodBoostPhases, determine_boost_phases
from trellis.core.boost.unboosted_size import UnboostedContainer, unboost_containers
from trellis.core.cluster.json_patches import format_resource_amount
from trellis.core.recommend.amounts import ResourceAmounts, parse_amounts
from trellis.core.recommend.capping import NamespaceLimits, RecommendedResources, read_limit_ranges
from trellis.core.sizing.shapes import PodShape, is_resizable
from trellis.core.sizing.sizes import size_pod

Targets = Mapping[str, str | Mapping[str, str]]
NO_LIMITS = NamespaceLimits()
ON = BoostSettings()


def effective(document: dict[str, Any]) -> EffectiveVpa:
    return resolve_vpa(msgspec.convert(document, VerticalPodAutoscaler))


def container(cpu: str | None = "500m", limit: str | None = None, name: str = "app", **fields: Any) -> dict[str, Any]:
    requests = {} if cpu is None else {"cpu": cpu}
    limits = {} if limit is None else {"cpu": limit}
    return {"name": name, "resources": {"requests": requests, "limits": limits}, **fields}


def with_memory(document: dict[str, Any], request: str, limit: str | None = None) -> dict[str, Any]:
    resources = document["resources"]
    resources["requests"]["memory"] = request
    if limit is not None:
        resources["limits"]["memory"] = limit
    return document


def limit_range(type_: str, **item: dict[str, str]) -> NamespaceLimits:
    return read_limit_ranges([msgspec.convert({"spec": {"limits": [{"type": type_, **item}]}}, LimitRange)])


def advice(targets: Targets) -> tuple[RecommendedResources, ...]:
    """A text is a CPU target."""
    return tuple(
        RecommendedResources(name, parse_amounts({"cpu": target} if isinstance(target, str) else target))
        for name, target in targets.items()
    )


class Life(msgspec.Struct):
    """A pod at some moment."""

    spec: dict[str, Any]
    annotations: dict[str, str] = {}
    boost: PodBoost = PodBoost()
    phases: PodBoostPhases = PodBoostPhases()
    ended: tuple[UnboostedContainer, ...] = ()

    @property
    def shape(self) -> PodShape:
        return PodShape.from_spec(msgspec.convert(self.spec, PodSpec))

    def cpu(self, name: str = "app") -> tuple[int | None, int | None]:
        """Request and limit in millicores."""
        amounts = self.amounts(name)
        return amounts[0].get("cpu"), amounts[1].get("cpu")

    def memory(self, name: str = "app") -> tuple[int | None, int | None]:
        """Request and limit in bytes."""
        amounts = self.amounts(name)
        return amounts[0].get("memory"), amounts[1].get("memory")

    def amounts(self, name: str) -> tuple[ResourceAmounts, ResourceAmounts]:
        resources = self._container(name)["resources"]
        return parse_amounts(resources.get("requests", {})), parse_amounts(resources.get("limits", {}))

    def set(self, name: str, requests: ResourceAmounts, limits: ResourceAmounts) -> None:
        resources = self._container(name).setdefault("resources", {})
        for field, amounts in (("requests", requests), ("limits", limits)):
            for resource, amount in amounts.items():
                resources.setdefault(field, {})[resource] = format_resource_amount(resource, amount)

    def notes(self) -> list[str]:
        return [f"{name}: {note}" for name, note in self.boost.notes]

    def _container(self, name: str) -> dict[str, Any]:
        every = [*self.spec["containers"], *self.spec.get("initContainers", [])]
        return next(candidate for candidate in every if candidate["name"] == name)


def pod(*containers: dict[str, Any], **spec: Any) -> Life:
    return Life({"containers": list(containers) or [container()], **spec})


def start(
    life: Life,
    vpa: EffectiveVpa,
    targets: Targets | None = None,
    *,
    limits: NamespaceLimits = NO_LIMITS,
    settings: BoostSettings = ON,
    ceiling: CpuCeiling | None = None,
) -> Life:
    """The pod as it is admitted."""
    begun = Life(copy.deepcopy(life.spec))
    applies = vpa.mode is not UpdateMode.OFF
    shape = begun.shape
    size = size_pod(shape, advice(targets or {}), vpa, limits)
    for sized in size.containers if applies else ():
        begun.set(sized.container.name, sized.requests, sized.limits)
    boost = boost_pod(
        shape,
        size,
        vpa,
        applies=applies,
        limits=limits,
        settings=settings,
        ceiling=ceiling,
        resizable=is_resizable(msgspec.convert(begun.spec, PodSpec)),
    )
    for raised in boost.containers:
        limit = {} if raised.limit is None else {"cpu": raised.limit}
        begun.set(raised.container.name, {"cpu": raised.request}, limit)
        begun.annotations[annotation_key(raised.container.name)] = raised.annotation
    begun.boost = boost
    return begun


def end(
    life: Life,
    vpa: EffectiveVpa,
    targets: Targets | None = None,
    *,
    now: float,
    ready_since: float | None,
    started: float = 0.0,
    limits: NamespaceLimits = NO_LIMITS,
    enabled: bool = True,
) -> Life:
    """The pod after the updater has looked at it once, and the kubelet has done what it said."""
    after = Life(copy.deepcopy(life.spec), dict(life.annotations))
    after.phases = determine_boost_phases(
        life.annotations,
        vpa,
        now,
        ready=ready_since is not None,
        ready_since=math.inf if ready_since is None else ready_since,
        started=started,
        without_policy_since=started,
        enabled=enabled,
    )
    after.ended = unboost_containers(
        life.shape,
        advice(targets or {}),
        vpa,
        applies=vpa.mode is not UpdateMode.OFF,
        limits=limits,
        phases=after.phases,
        pre_boost=read_pre_boost_resources(life.annotations),
    )
    for unboosted in after.ended:
        if unboosted.requests:
            after.set(unboosted.container, unboosted.requests, unboosted.limits)
        del after.annotations[annotation_key(unboosted.container)]
    return after


def states(phases: PodBoostPhases) -> Sequence[tuple[str, str, str]]:
    return [(container.container, container.phase.value, container.reason.code) for container in phases.containers]
