"""Builds the view of a workload from what the watch and the target's scale show.

An HPA's own percentage is truncated to a whole number, which is much for a small pod. Utilization is therefore computed
from the average usage that the HPA reports beside it, where that and the requests are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from trellis.api.buckets import RESOURCES
from trellis.api.kinds.hvpa import Hvpa, HvpaStatus, ResourceTotals
from trellis.api.kinds.vpa import PodRecommendation, VerticalPodAutoscaler
from trellis.api.kube.meta import ManagedFieldsEntry, ObjectMeta
from trellis.api.kube.observed_pods import ObservedAmounts, ObservedPod, ObservedPodMeta
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Metric, MetricSource, Scale
from trellis.api.kube.slices import NOTHING, Labels
from trellis.api.resolve import EffectiveVpa, resolve_hvpa_pods, resolve_vpa
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity
from trellis.base.selectors import Selector
from trellis.core.boost.annotation import read_pre_boost_resources
from trellis.core.cluster.oom_kills import find_oom_kills
from trellis.core.cluster.pod_resources import read_current_resources
from trellis.core.hvpa.autoscalers import (
    RelatedAutoscalers,
    find_conflict,
    find_hpa,
    find_vpa,
    is_owned_by,
    list_conflicting,
)
from trellis.core.hvpa.memory import HvpaMemory
from trellis.core.hvpa.view import ContainerView, HpaView, HvpaView, ResolvedHvpa
from trellis.core.recommend.amounts import ResourceAmounts, parse_amounts

_PERCENT, _MILLI = 100, 1000


def read_hpa(hpa: HorizontalPodAutoscaler, requests: Mapping[str, ResourceAmounts], *, owned: bool) -> HpaView:
    """What an HPA says; `requests` is what each container of a pod requests on average, scaled or not."""
    ratios = [found for wanted in hpa.spec.metrics if (found := _found(hpa, wanted, requests)) is not None]
    down = hpa.spec.behavior.scale_down if hpa.spec.behavior is not None else None
    waits = down is None or down.stabilization_window_seconds != 0
    return HpaView(
        ratio=max(ratios, default=None),
        own=_own(hpa, requests),
        desired=hpa.status.desired_replicas or None,
        resources=_resources(hpa),
        min_replicas=1 if hpa.spec.min_replicas is None else hpa.spec.min_replicas,
        max_replicas=hpa.spec.max_replicas,
        stabilizes=waits and not owned,
    )


def _found(hpa: HorizontalPodAutoscaler, wanted: Metric, requests: Mapping[str, ResourceAmounts]) -> Fraction | None:
    """The ratio of a metric, if its status has it."""
    ratios = (_ratio(wanted, current, requests) for current in hpa.status.current_metrics if _same(wanted, current))
    return max((each for each in ratios if each is not None), default=None)


def _own(hpa: HorizontalPodAutoscaler, requests: Mapping[str, ResourceAmounts]) -> dict[str, Fraction]:
    """The ratio of each resource; none of any if a metric is unknown or is no share of what is requested."""
    found: dict[str, Fraction] = {}
    for wanted in hpa.spec.metrics:
        source = wanted.resource or wanted.container_resource
        ratio = _found(hpa, wanted, requests)
        if source is None or not source.target.average_utilization or ratio is None:
            return {}
        found[source.name] = max(ratio, found.get(source.name, ratio))
    return found


def _resources(hpa: HorizontalPodAutoscaler) -> frozenset[str]:
    """Those that its metrics name, and both if none does."""
    named = {source.name for each in hpa.spec.metrics if (source := each.resource or each.container_resource)}
    return frozenset(named & set(RESOURCES) or RESOURCES)


def _same(wanted: Metric, current: Metric) -> bool:
    one, other = wanted.source, current.source
    if one is None or other is None or wanted.type != current.type:
        return False
    same = (one.name, one.container, one.metric) == (other.name, other.container, other.metric)
    return same and one.described_object == other.described_object


def _ratio(wanted: Metric, current: Metric, requests: Mapping[str, ResourceAmounts]) -> Fraction | None:
    """Current over target; None if either is not known."""
    one, other = wanted.source, current.source
    if one is None or other is None:
        return None
    target, now = one.target, other.current
    if target.average_utilization:
        return _utilization(one, other, target.average_utilization, requests)
    pairs = ((now.average_value, target.average_value), (now.value, target.value))
    return next((_over(found, aim) for found, aim in pairs if found and aim), None)


def _utilization(
    one: MetricSource, other: MetricSource, percent: int, requests: Mapping[str, ResourceAmounts]
) -> Fraction | None:
    named = requests.values() if not one.container else (requests.get(one.container, {}),)
    request = sum(each.get(one.name, 0) for each in named)
    usage = _amount(other.current.average_value)
    if usage is not None and request:
        unit = _MILLI if one.name == "cpu" else 1
        return usage * unit * _PERCENT / (request * percent)
    seen = other.current.average_utilization
    return Fraction(seen, percent) if seen is not None else None


def _over(found: str, aim: str) -> Fraction | None:
    amount, target = _amount(found), _amount(aim)
    return amount / target if amount is not None and target else None


def _amount(text: str) -> Fraction | None:
    try:
        return Quantity.parse(text).exact() if text else None
    except InvalidQuantity:
        return None


_FINISHED = ("Succeeded", "Failed")


class HvpaPodMeta(ObservedPodMeta, frozen=True):
    """With annotations: they tell which containers are boosted."""

    annotations: Labels = NOTHING


class HvpaPod(ObservedPod, frozen=True):
    """A pod, as far as its Hvpa asks for it."""

    metadata: HvpaPodMeta = HvpaPodMeta()


class WatchedHvpaMeta(ObjectMeta, frozen=True):
    """With who wrote which field: it tells a wish of others from the controller's own count."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class WatchedHvpa(Hvpa, frozen=True):
    """An Hvpa, as its controller watches it."""

    metadata: WatchedHvpaMeta = WatchedHvpaMeta()


def find_scale_writer(hvpa: Hvpa, own: str) -> str:
    """Which field manager wrote `spec.replicas`; empty if it is this one, or not known."""
    entries: tuple[ManagedFieldsEntry, ...] = getattr(hvpa.metadata, "managed_fields", ())
    writers = [each.manager for each in entries if each.has("spec", "replicas")]
    return writers[-1] if writers and own not in writers else ""


class PodEdit(msgspec.Struct, frozen=True):
    """A change of a pod's spec, seen by the watch: updaters may set right what was edited before anybody looks."""

    before: HvpaPod
    after: HvpaPod


def select_live_pods(pods: Iterable[HvpaPod], selector: Selector) -> list[HvpaPod]:
    """The pods of a target: those that run or will."""
    return [
        each
        for each in pods
        if each.metadata.deletion_timestamp is None
        and each.status.phase not in _FINISHED
        and selector.matches(each.metadata.labels)
    ]


def build_view(
    hvpa: Hvpa,
    meaning: ResolvedHvpa,
    scale: Scale,
    pods: Sequence[HvpaPod],
    around: RelatedAutoscalers,
    *,
    wish: int | None,
    published: PodRecommendation | None,
    memory: HvpaMemory,
    edits: Iterable[PodEdit] = (),
    wisher: str = "",
) -> HvpaView:
    """All that a plan is made from."""
    vpa, hpa = find_vpa(hvpa, around.vpas), find_hpa(hvpa, around.hpas)
    containers = _containers(hvpa, vpa, pods, published)
    requests = {each.name: each.requests for each in containers}
    totals = (hvpa.status or HvpaStatus()).totals or ResourceTotals()
    yields = find_conflict(hvpa, around)
    kills = [kill.time for pod in pods for kill in find_oom_kills(None, pod)]
    return HvpaView(
        meaning=meaning,
        replicas=scale.spec.replicas,
        pods=len(pods),
        ready=sum(each.status.ready for each in pods),
        containers=containers,
        wish=wish,
        hpa=read_hpa(hpa, requests, owned=is_owned_by(hpa.metadata, hvpa)) if hpa is not None else None,
        totals=parse_amounts({name: text for name, text in (("cpu", totals.cpu), ("memory", totals.memory)) if text}),
        oom=max(kills, default=None),
        yields=yields,
        rivals=tuple(list_conflicting(hvpa, around)) if yields is not None else (),
        edited=any(_lost_published(each, containers) for each in edits),
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
    said = {each.container_name: parse_amounts(each.target or {}) for each in parts}
    names = {each.name: None for pod in pods for each in pod.spec.running}
    found = []
    for name in names or advised:
        had = [_requests(pod, name, said.get(name, {})) for pod in pods]
        own = advised.get(name)
        found.append(
            ContainerView(
                name,
                all(policy.container(name).scaled for policy in policies),
                parse_amounts(own.target or {}) if own is not None else {},
                parse_amounts(own.total_target or {}) if own is not None else {},
                _average(had),
                _least(had),
                said.get(name, {}),
            )
        )
    return tuple(found)


def _requests(pod: HvpaPod, container: str, said: ResourceAmounts) -> ResourceAmounts:
    """What a container has, a boost apart: that goes by itself, and nobody asked for it for long."""
    now = read_current_resources(pod, container).requests
    had = parse_amounts(_texts(now))
    boosted = read_pre_boost_resources(pod.metadata.annotations).get(container)
    if boosted is None:
        return had
    base = said.get("cpu", boosted.requests.get("cpu"))
    return had if base is None else {**had, "cpu": base}


def _texts(amounts: ObservedAmounts) -> dict[str, str]:
    return {name: text for name, text in (("cpu", amounts.cpu), ("memory", amounts.memory)) if text}


def _lost_published(edit: PodEdit, containers: Sequence[ContainerView]) -> bool:
    """Whether a pod had the requests that were decided and lost them; one on its way to them had not."""
    said = [each for each in containers if each.scaled and each.published]
    return _requests_published(edit.before, said) and not _requests_published(edit.after, said)


def _requests_published(pod: HvpaPod, said: Iterable[ContainerView]) -> bool:
    """Whether a pod asks for what is published, whatever its kubelet has come to."""
    parts = {each.name: each.resources.requests for each in pod.spec.running}
    asked = {name: parse_amounts(_texts(each)) for name, each in parts.items()}
    return all(asked.get(each.name, {}).items() >= each.published.items() for each in said)


def _average(had: Sequence[ResourceAmounts]) -> ResourceAmounts:
    names = sorted({name for each in had for name in each})
    return {name: math.ceil(Fraction(sum(each.get(name, 0) for each in had), len(had))) for name in names}


def _least(had: Sequence[ResourceAmounts]) -> ResourceAmounts:
    names = sorted({name for each in had for name in each})
    return {name: min(each.get(name, 0) for each in had) for name in names}
