"""What does an Hvpa know of its workload at this moment? All that the watch and the target's scale say, as a view."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import msgspec

from trellis.api.hvpa import Hvpa, HvpaStatus, ResourceTotals
from trellis.api.kube.meta import ManagedFields, ObjectMeta
from trellis.api.kube.observed_pods import Amounts, ObservedPod, ObservedPodMeta
from trellis.api.kube.scaling import Scale
from trellis.api.kube.slices import NOTHING, Labels
from trellis.api.resolve import EffectiveVpa, resolve_hvpa_pods, resolve_vpa
from trellis.api.vpa import PodRecommendation, VerticalPodAutoscaler
from trellis.base.selectors import Selector
from trellis.core.boost.memory import read_memory
from trellis.core.hvpa.hpas import read_hpa
from trellis.core.hvpa.memory import Memory
from trellis.core.hvpa.surroundings import Surroundings, hpa_of, is_owned, rivals_of, vpa_of, why_yields
from trellis.core.hvpa.views import ContainerView, Meaning, View
from trellis.core.model.ooms import observed
from trellis.core.model.pods import resources_now
from trellis.core.recommend.capping.limit_ranges import Counts, counts

_OVER = ("Succeeded", "Failed")


class HvpaPodMeta(ObservedPodMeta, frozen=True):
    """With annotations: they tell which containers are boosted."""

    annotations: Labels = NOTHING


class HvpaPod(ObservedPod, frozen=True):
    """A pod, as far as its Hvpa asks for it."""

    metadata: HvpaPodMeta = HvpaPodMeta()


class WatchedHvpaMeta(ObjectMeta, frozen=True):
    """With who wrote which field: it tells a wish of others from the controller's own count."""

    managed_fields: tuple[ManagedFields, ...] = ()


class WatchedHvpa(Hvpa, frozen=True):
    """An Hvpa, as its controller watches it."""

    metadata: WatchedHvpaMeta = WatchedHvpaMeta()


def wisher_of(hvpa: Hvpa, own: str) -> str:
    """Which field manager wrote `spec.replicas`; empty if it is this one, or not known."""
    entries: tuple[ManagedFields, ...] = getattr(hvpa.metadata, "managed_fields", ())
    writers = [each.manager for each in entries if each.has("spec", "replicas")]
    return writers[-1] if writers and own not in writers else ""


class Edit(msgspec.Struct, frozen=True):
    """A change of a pod's spec, seen by the watch: updaters may set right what was edited before anybody looks."""

    before: HvpaPod
    after: HvpaPod


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
    edits: Iterable[Edit] = (),
    wisher: str = "",
) -> View:
    """All that a plan is made from."""
    vpa, hpa = vpa_of(hvpa, around.vpas), hpa_of(hvpa, around.hpas)
    containers = _containers(hvpa, vpa, pods, published)
    requests = {each.name: each.requests for each in containers}
    totals = (hvpa.status or HvpaStatus()).totals or ResourceTotals()
    yields = why_yields(hvpa, around)
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
        yields=yields,
        rivals=tuple(rivals_of(hvpa, around)) if yields is not None else (),
        edited=any(_lost(each, containers) for each in edits),
        memory=memory,
        wisher=wisher,
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
    had = counts(_texts(now))
    boosted = read_memory(pod.metadata.annotations).get(container)
    if boosted is None:
        return had
    base = said.get("cpu", boosted.requests.get("cpu"))
    return had if base is None else {**had, "cpu": base}


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: text for name, text in (("cpu", amounts.cpu), ("memory", amounts.memory)) if text}


def _lost(edit: Edit, containers: Sequence[ContainerView]) -> bool:
    """Whether a pod had the requests that were decided and lost them; one on its way to them had not."""
    said = [each for each in containers if each.scaled and each.published]
    return _asks(edit.before, said) and not _asks(edit.after, said)


def _asks(pod: HvpaPod, said: Iterable[ContainerView]) -> bool:
    """Whether a pod asks for what is published, whatever its kubelet has come to."""
    parts = {each.name: each.resources.requests for each in pod.spec.running}
    asked = {name: counts(_texts(each)) for name, each in parts.items()}
    return all(asked.get(each.name, {}).items() >= each.published.items() for each in said)


def _average(had: Sequence[Counts]) -> Counts:
    names = sorted({name for each in had for name in each})
    return {name: math.ceil(Fraction(sum(each.get(name, 0) for each in had), len(had))) for name in names}


def _least(had: Sequence[Counts]) -> Counts:
    names = sorted({name for each in had for name in each})
    return {name: min(each.get(name, 0) for each in had) for name in names}
