"""The CPU of a boosted container over time, at the moments that matter, decided by the code that ships.

A life begins when the pod is created. It is looked at again when the pod becomes Ready, and then whenever the phases of
its boost say so, until nothing is due any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import PodSpec
from trellis.api.resolve import EffectiveVpa, UpdateMode, resolve_vpa
from trellis.core.boost.annotation import annotation_key, read_pre_boost_resources
from trellis.core.boost.boosted_size import BoostSettings, boost_pod
from trellis.core.boost.phases import determine_boost_phases
from trellis.core.boost.unboosted_size import unboost_containers
from trellis.core.recommend.capping import NamespaceLimits, RecommendedResources
from trellis.core.sizing.shapes import PodShape
from trellis.core.sizing.sizes import size_pod

_APP = "app"
_NO_LIMITS = NamespaceLimits()


class Moment(msgspec.Struct, frozen=True):
    """From this second on a container has so many millicores; a limit of None is none."""

    at: float
    request: int
    limit: int | None


class Story(msgspec.Struct, frozen=True):
    """A pod of one container: its spec, its policy, what is recommended from when on, and when it becomes Ready."""

    cpu: Mapping[str, Any]
    request: str = "500m"
    limit: str = "1"
    ready_at: float = math.inf
    recommended: tuple[tuple[float, int], ...] = ()
    policy: Mapping[str, Any] = {}


def simulate_boost(story: Story) -> list[Moment]:
    """The container's CPU, from the pod's creation to the last change."""
    vpa = _vpa(story)
    shape = _shape(story.request, story.limit)
    applies = vpa.mode is not UpdateMode.OFF
    size = size_pod(shape, _advice(story, 0.0), vpa, _NO_LIMITS)
    boost = boost_pod(shape, size, vpa, applies=applies, limits=_NO_LIMITS, settings=BoostSettings())
    raised = boost.find(_APP)
    if raised is None:
        raise SystemExit(f"nothing is boosted by {story.cpu}")
    begins = Moment(0.0, raised.request, raised.limit)
    return [begins, *_simulate_updater(story, vpa, begins, {annotation_key(_APP): raised.annotation})]


def _simulate_updater(
    story: Story, vpa: EffectiveVpa, boosted: Moment, annotations: Mapping[str, str]
) -> Iterator[Moment]:
    """What the updater makes of it: at each look that the phases ask for."""
    now: float | None = 0.0
    while now is not None:
        phases = determine_boost_phases(
            annotations, vpa, now, ready=now >= story.ready_at, ready_since=story.ready_at, started=0.0
        )
        for container in unboost_containers(
            _shape(f"{boosted.request}m", f"{boosted.limit}m"),
            _advice(story, now),
            vpa,
            applies=vpa.mode is not UpdateMode.OFF,
            limits=_NO_LIMITS,
            phases=phases,
            pre_boost=read_pre_boost_resources(annotations),
        ):
            yield Moment(now, container.requests["cpu"], container.limits.get("cpu"))
            return
        becomes_ready = story.ready_at if now < story.ready_at < math.inf else None
        now = min((time for time in (phases.next_transition, becomes_ready) if time is not None), default=None)


def _vpa(story: Story) -> EffectiveVpa:
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
        "startupBoost": {"cpu": story.cpu},
        "resourcePolicy": {"containerPolicies": [{"containerName": _APP, **story.policy}]},
    }
    return resolve_vpa(msgspec.convert({"metadata": {"name": "shop"}, "spec": spec}, VerticalPodAutoscaler))


def _shape(request: str, limit: str) -> PodShape:
    resources = {"requests": {"cpu": request}, "limits": {"cpu": limit}}
    return PodShape.from_spec(msgspec.convert({"containers": [{"name": _APP, "resources": resources}]}, PodSpec))


def _advice(story: Story, now: float) -> list[RecommendedResources]:
    known = [millicores for since, millicores in story.recommended if since <= now]
    return [RecommendedResources(_APP, {"cpu": known[-1]})] if known else []
