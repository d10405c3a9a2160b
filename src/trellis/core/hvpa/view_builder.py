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
from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Metric, MetricSource, Scale
from trellis.api.kube.slices import NOTHING, Labels
from trellis.api.resolve import EffectiveVpa, resolve_hvpa_pods, resolve_vpa
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity
from trellis.base.selectors import Selector
from trellis.core.boost.annotation import read_pre_boost_resources
from trellis.core.cluster.oom_kill_detection import find_oom_kills
from trellis.core.cluster.pod_resources import read_current_resources
from trellis.core.cluster.transforms import ObservedPodProjection
from trellis.core.hvpa.autoscalers import (
    RelatedAutoscalers,
    find_conflict,
    find_hpa,
    find_vpa,
    is_owned_by,
    list_conflicting,
)
from trellis.core.hvpa.remembered_state import HvpaMemory
from trellis.core.hvpa.view import ContainerView, HpaView, HvpaView, ResolvedHvpa
from trellis.core.recommend.amounts import ResourceAmounts, parse_amounts

_PERCENT, _MILLI = 100, 1000


def read_hpa(hpa: HorizontalPodAutoscaler, requests: Mapping[str, ResourceAmounts], *, owned: bool) -> HpaView:
    """What an HPA says; `requests` is what each container of a pod requests on average, scaled or not."""
    ratios = [ratio for metric in hpa.spec.metrics if (ratio := _current_ratio(hpa, metric, requests)) is not None]
    down = hpa.spec.behavior.scale_down if hpa.spec.behavior is not None else None
    waits = down is None or down.stabilization_window_seconds != 0
    return HpaView(
        ratio=max(ratios, default=None),
        ratios=_read_ratios(hpa, requests),
        desired_replicas=hpa.status.desired_replicas or None,
        resources=_list_resources(hpa),
        min_replicas=1 if hpa.spec.min_replicas is None else hpa.spec.min_replicas,
        max_replicas=hpa.spec.max_replicas,
        stabilizes=waits and not owned,
    )


def _current_ratio(
    hpa: HorizontalPodAutoscaler, metric: Metric, requests: Mapping[str, ResourceAmounts]
) -> Fraction | None:
    """The ratio of a metric, if its status has it."""
    ratios = (
        _compute_ratio(metric, current, requests)
        for current in hpa.status.current_metrics
        if _is_same_metric(metric, current)
    )
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _read_ratios(hpa: HorizontalPodAutoscaler, requests: Mapping[str, ResourceAmounts]) -> dict[str, Fraction]:
    """The ratio of each resource; none of any if a metric is unknown or is no share of what is requested."""
    ratios: dict[str, Fraction] = {}
    for metric in hpa.spec.metrics:
        source = metric.resource or metric.container_resource
        ratio = _current_ratio(hpa, metric, requests)
        if source is None or not source.target.average_utilization or ratio is None:
            return {}
        ratios[source.name] = max(ratio, ratios.get(source.name, ratio))
    return ratios


def _list_resources(hpa: HorizontalPodAutoscaler) -> frozenset[str]:
    """Those that its metrics name, and both if none does."""
    named = {source.name for metric in hpa.spec.metrics if (source := metric.resource or metric.container_resource)}
    return frozenset(named & set(RESOURCES) or RESOURCES)


def _is_same_metric(metric: Metric, current: Metric) -> bool:
    target, observed = metric.source, current.source
    if target is None or observed is None or metric.type != current.type:
        return False
    same = (target.name, target.container, target.metric) == (observed.name, observed.container, observed.metric)
    return same and target.described_object == observed.described_object


def _compute_ratio(metric: Metric, current: Metric, requests: Mapping[str, ResourceAmounts]) -> Fraction | None:
    """Current over target; None if either is not known."""
    source, observed = metric.source, current.source
    if source is None or observed is None:
        return None
    target, now = source.target, observed.current
    if target.average_utilization:
        return _utilization(source, observed, target.average_utilization, requests)
    pairs = ((now.average_value, target.average_value), (now.value, target.value))
    return next((_divide(current_amount, aim) for current_amount, aim in pairs if current_amount and aim), None)


def _utilization(
    target: MetricSource, observed: MetricSource, percent: int, requests: Mapping[str, ResourceAmounts]
) -> Fraction | None:
    named = requests.values() if not target.container else (requests.get(target.container, {}),)
    request = sum(container.get(target.name, 0) for container in named)
    usage = _parse_amount(observed.current.average_value)
    if usage is not None and request:
        unit = _MILLI if target.name == "cpu" else 1
        return usage * unit * _PERCENT / (request * percent)
    utilization = observed.current.average_utilization
    return Fraction(utilization, percent) if utilization is not None else None


def _divide(current: str, aim: str) -> Fraction | None:
    amount, target = _parse_amount(current), _parse_amount(aim)
    return amount / target if amount is not None and target else None


def _parse_amount(text: str) -> Fraction | None:
    try:
        return Quantity.parse(text).exact() if text else None
    except InvalidQuantity:
        return None


_FINISHED = ("Succeeded", "Failed")


class HvpaPodMeta(ObservedPodMeta, frozen=True):
    """With annotations: they tell which containers are boosted."""

    annotations: Labels = NOTHING


class HvpaPod(ObservedPod, frozen=True):
    """A pod with the fields that a plan for its Hvpa reads."""

    metadata: HvpaPodMeta = HvpaPodMeta()


class HvpaPodProjection:
    """Makes of a pod of the cluster state what a plan for its Hvpa reads."""

    def __init__(self) -> None:
        self._observe = ObservedPodProjection()

    def __call__(self, pod: Pod) -> HvpaPod:
        observed = self._observe(pod)
        metadata = HvpaPodMeta(**msgspec.structs.asdict(observed.metadata), annotations=pod.metadata.annotations)
        return HvpaPod(metadata, observed.spec, observed.status)


class WatchedHvpaMeta(ObjectMeta, frozen=True):
    """With who wrote which field: it tells a wish of others from the controller's own count."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class WatchedHvpa(Hvpa, frozen=True):
    """An Hvpa, as its controller watches it."""

    metadata: WatchedHvpaMeta = WatchedHvpaMeta()


def find_scale_writer(hvpa: Hvpa, own_manager: str) -> str:
    """Which field manager wrote `spec.replicas`; empty if it is this one, or not known."""
    entries: tuple[ManagedFieldsEntry, ...] = getattr(hvpa.metadata, "managed_fields", ())
    writers = [entry.manager for entry in entries if entry.has_field("spec", "replicas")]
    return writers[-1] if writers and own_manager not in writers else ""


class PodEdit(msgspec.Struct, frozen=True):
    """A change of a pod's spec, seen by the watch: updaters may undo an edit before the next pass."""

    before: HvpaPod
    after: HvpaPod


def select_live_pods(pods: Iterable[HvpaPod], selector: Selector) -> list[HvpaPod]:
    """The pods of a target: those that run or will."""
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and pod.status.phase not in _FINISHED
        and selector.matches(pod.metadata.labels)
    ]


def build_view(
    hvpa: Hvpa,
    meaning: ResolvedHvpa,
    scale: Scale,
    pods: Sequence[HvpaPod],
    related: RelatedAutoscalers,
    *,
    spec_replicas: int | None,
    published: PodRecommendation | None,
    memory: HvpaMemory,
    edits: Iterable[PodEdit] = (),
    scale_writer: str = "",
) -> HvpaView:
    """All that a plan is made from."""
    vpa, hpa = find_vpa(hvpa, related.vpas), find_hpa(hvpa, related.hpas)
    containers = _build_container_views(hvpa, vpa, pods, published)
    requests = {container.name: container.requests for container in containers}
    totals = (hvpa.status or HvpaStatus()).totals or ResourceTotals()
    conflict = find_conflict(hvpa, related)
    kills = [kill.time for pod in pods for kill in find_oom_kills(None, pod)]
    return HvpaView(
        meaning=meaning,
        replicas=scale.spec.replicas,
        pods=len(pods),
        ready=sum(pod.status.ready for pod in pods),
        containers=containers,
        spec_replicas=spec_replicas,
        hpa=read_hpa(hpa, requests, owned=is_owned_by(hpa.metadata, hvpa)) if hpa is not None else None,
        published_totals=parse_amounts(
            {name: text for name, text in (("cpu", totals.cpu), ("memory", totals.memory)) if text}
        ),
        last_oom_kill=max(kills, default=None),
        conflict=conflict,
        conflicting=tuple(list_conflicting(hvpa, related)) if conflict is not None else (),
        requests_edited=any(_lost_published(edit, containers) for edit in edits),
        memory=memory,
        scale_writer=scale_writer,
    )


def _build_container_views(
    hvpa: Hvpa, vpa: VerticalPodAutoscaler | None, pods: Sequence[HvpaPod], published: PodRecommendation | None
) -> tuple[ContainerView, ...]:
    policies: list[EffectiveVpa] = [resolve_hvpa_pods(hvpa)]
    if vpa is not None:
        policies.append(resolve_vpa(vpa))
    advice = vpa.status.recommendation if vpa is not None and vpa.status is not None else None
    advised = {
        recommendation.container_name: recommendation
        for recommendation in (advice.container_recommendations or () if advice else ())
    }
    parts = (published.container_recommendations or ()) if published is not None else ()
    recommended = {
        recommendation.container_name: parse_amounts(recommendation.target or {}) for recommendation in parts
    }
    names = {container.name: None for pod in pods for container in pod.spec.running}
    containers = []
    for name in names or advised:
        pod_requests = [_read_requests(pod, name, recommended.get(name, {})) for pod in pods]
        vpa_recommendation = advised.get(name)
        containers.append(
            ContainerView(
                name,
                all(policy.get_container(name).is_scaled for policy in policies),
                parse_amounts(vpa_recommendation.target or {}) if vpa_recommendation is not None else {},
                parse_amounts(vpa_recommendation.total_target or {}) if vpa_recommendation is not None else {},
                _average_requests(pod_requests),
                _min_requests(pod_requests),
                recommended.get(name, {}),
            )
        )
    return tuple(containers)


def _read_requests(pod: HvpaPod, container: str, recommended: ResourceAmounts) -> ResourceAmounts:
    """What a container requests, without its boost: that ends by itself, and is no lasting demand."""
    current = read_current_resources(pod, container).requests
    requested = parse_amounts(_list_quantities(current))
    boosted = read_pre_boost_resources(pod.metadata.annotations).get(container)
    if boosted is None:
        return requested
    base = recommended.get("cpu", boosted.requests.get("cpu"))
    return requested if base is None else {**requested, "cpu": base}


def _list_quantities(amounts: ObservedAmounts) -> dict[str, str]:
    return {name: text for name, text in (("cpu", amounts.cpu), ("memory", amounts.memory)) if text}


def _lost_published(edit: PodEdit, containers: Sequence[ContainerView]) -> bool:
    """Whether a pod had the requests that were decided and lost them; one on its way to them had not."""
    published = [container for container in containers if container.scaled and container.published]
    return _requests_published(edit.before, published) and not _requests_published(edit.after, published)


def _requests_published(pod: HvpaPod, published: Iterable[ContainerView]) -> bool:
    """Whether a pod asks for what is published, whatever its kubelet has come to."""
    parts = {container.name: container.resources.requests for container in pod.spec.running}
    requested = {name: parse_amounts(_list_quantities(container)) for name, container in parts.items()}
    return all(requested.get(container.name, {}).items() >= container.published.items() for container in published)


def _average_requests(pod_requests: Sequence[ResourceAmounts]) -> ResourceAmounts:
    names = sorted({name for amounts in pod_requests for name in amounts})
    return {
        name: math.ceil(Fraction(sum(amounts.get(name, 0) for amounts in pod_requests), len(pod_requests)))
        for name in names
    }


def _min_requests(pod_requests: Sequence[ResourceAmounts]) -> ResourceAmounts:
    names = sorted({name for amounts in pod_requests for name in amounts})
    return {name: min(amounts.get(name, 0) for amounts in pod_requests) for name in names}
