"""What does an Hvpa know of its workload at this moment? All that the watch and the target's scale say, as a view."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import msgspec

from trellis.api.hvpa import Hvpa, HvpaStatus, ResourceTotals
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Scale
from trellis.api.parts import TargetReference
from trellis.api.resolve import EffectiveVpa, UpdateMode, resolve_hvpa_pods, resolve_vpa
from trellis.api.vpa import PodRecommendation, VerticalPodAutoscaler
from trellis.base.reason import Reason
from trellis.base.selectors import Selector
from trellis.controllers.hvpa.owned import is_owned
from trellis.controllers.hvpa.watching import HvpaPod
from trellis.core.boost.memory import read_memory
from trellis.core.hvpa import ContainerView, Meaning, Memory, View, read_hpa, yields_to
from trellis.core.model.ooms import observed
from trellis.core.model.pods import resources_now
from trellis.core.recommend.capping.limit_ranges import Counts, counts
from trellis.kube.resources import HVPAS

_OVER = ("Succeeded", "Failed")


class Surroundings(msgspec.Struct, frozen=True):
    """The autoscalers of a namespace."""

    hvpas: Sequence[Hvpa]
    hpas: Sequence[HorizontalPodAutoscaler]
    vpas: Sequence[VerticalPodAutoscaler]


def is_about(target: TargetReference, kind: str, name: str) -> bool:
    """Whether a reference means the target; the version is not compared, because people write any."""
    return (target.kind, target.name) == (kind, name)


def vpa_of(hvpa: Hvpa, vpas: Iterable[VerticalPodAutoscaler]) -> VerticalPodAutoscaler | None:
    """The VPA that recommends for an Hvpa: its own, or the oldest of the user's in mode `Off`."""
    found = [each for each in vpas if _shares(hvpa, each)]
    owned = next((each for each in found if is_owned(each.metadata, hvpa)), None)
    others = [each for each in found if resolve_vpa(each).mode is UpdateMode.OFF]
    return owned or min(others, key=lambda each: _age(each.metadata), default=None)


def hpa_of(hvpa: Hvpa, hpas: Iterable[HorizontalPodAutoscaler]) -> HorizontalPodAutoscaler | None:
    """The HPA that drives an Hvpa: its own, or the oldest of the user's."""
    name = hvpa.metadata.name
    found = [each for each in hpas if each.spec.scale_target_ref.kind == HVPAS.kind]
    found = [each for each in found if each.spec.scale_target_ref.name == name]
    owned = next((each for each in found if is_owned(each.metadata, hvpa)), None)
    return owned or min(found, key=lambda each: _age(each.metadata), default=None)


def why_yields(hvpa: Hvpa, around: Surroundings) -> Reason | None:
    """Which other autoscaler comes first, if one does."""
    target = hvpa.spec.target_ref
    acting = any(
        _shares(hvpa, each) and not is_owned(each.metadata, hvpa) and resolve_vpa(each).mode is not UpdateMode.OFF
        for each in around.vpas
    )
    on_target = any(
        is_about(target, each.spec.scale_target_ref.kind, each.spec.scale_target_ref.name) for each in around.hpas
    )
    elder = any(
        is_about(target, each.spec.target_ref.kind, each.spec.target_ref.name)
        and _age(each.metadata) < _age(hvpa.metadata)
        for each in around.hvpas
    )
    return yields_to(acting_vpa=acting, hpa_on_target=on_target, elder_hvpa=elder)


def pods_of(pods: Iterable[HvpaPod], selector: Selector) -> list[HvpaPod]:
    """The pods of a target: those that run or will."""
    return [
        each
        for each in pods
        if each.metadata.deletion_timestamp is None
        and each.status.phase not in _OVER
        and selector.matches(each.metadata.labels)
    ]


def view_of(
    hvpa: Hvpa,
    meaning: Meaning,
    scale: Scale,
    pods: Sequence[HvpaPod],
    around: Surroundings,
    *,
    wish: int | None,
    published: PodRecommendation | None,
    memory: Memory,
) -> View:
    """All that a plan is made from."""
    vpa, hpa = vpa_of(hvpa, around.vpas), hpa_of(hvpa, around.hpas)
    containers = _containers(hvpa, vpa, pods, published)
    requests = {each.name: each.requests for each in containers}
    totals = (hvpa.status or HvpaStatus()).totals or ResourceTotals()
    kills = [kill.time for pod in pods for kill in observed(None, pod)]
    return View(
        meaning=meaning,
        replicas=scale.spec.replicas,
        pods=len(pods),
        ready=sum(each.status.ready for each in pods),
        containers=containers,
        wish=wish,
        hpa=read_hpa(hpa, requests, owned=is_owned(hpa.metadata, hvpa)) if hpa is not None else None,
        totals=counts({name: text for name, text in (("cpu", totals.cpu), ("memory", totals.memory)) if text}),
        oom=max(kills, default=None),
        yields=why_yields(hvpa, around),
        memory=memory,
    )


def _containers(
    hvpa: Hvpa, vpa: VerticalPodAutoscaler | None, pods: Sequence[HvpaPod], published: PodRecommendation | None
) -> tuple[ContainerView, ...]:
    policies: list[EffectiveVpa] = [resolve_hvpa_pods(hvpa)]
    if vpa is not None:
        policies.append(resolve_vpa(vpa))
    advice = vpa.status.recommendation if vpa is not None and vpa.status is not None else None
    advised = {each.container_name: each for each in (advice.container_recommendations or () if advice else ())}
    parts = (published.container_recommendations or ()) if published is not None else ()
    said = {each.container_name: counts(each.target or {}) for each in parts}
    names = {each.name: None for pod in pods for each in pod.spec.running}
    found = []
    for name in names or advised:
        had = [_requests(pod, name, said.get(name, {})) for pod in pods]
        own = advised.get(name)
        found.append(
            ContainerView(
                name,
                all(policy.container(name).scaled for policy in policies),
                counts(own.target or {}) if own is not None else {},
                counts(own.total_target or {}) if own is not None else {},
                _average(had),
                _least(had),
                said.get(name, {}),
            )
        )
    return tuple(found)


def _requests(pod: HvpaPod, container: str, said: Counts) -> Counts:
    """What a container has, a boost apart: that goes by itself, and nobody asked for it for long."""
    now = resources_now(pod, container).requests
    had = counts({name: text for name, text in (("cpu", now.cpu), ("memory", now.memory)) if text})
    boosted = read_memory(pod.metadata.annotations).get(container)
    if boosted is None:
        return had
    base = said.get("cpu", boosted.requests.get("cpu"))
    return had if base is None else {**had, "cpu": base}


def _average(had: Sequence[Counts]) -> Counts:
    names = sorted({name for each in had for name in each})
    return {name: math.ceil(Fraction(sum(each.get(name, 0) for each in had), len(had))) for name in names}


def _least(had: Sequence[Counts]) -> Counts:
    names = sorted({name for each in had for name in each})
    return {name: min(each.get(name, 0) for each in had) for name in names}


def _shares(hvpa: Hvpa, vpa: VerticalPodAutoscaler) -> bool:
    return is_about(hvpa.spec.target_ref, vpa.spec.target_ref.kind, vpa.spec.target_ref.name)


def _age(metadata: ObjectMeta) -> tuple[float, str]:
    created = metadata.creation_timestamp
    return created.timestamp() if created is not None else math.inf, metadata.name
