"""What does an HPA see? How far its metrics are from their targets, and of which resources they speak.

Its own percentage is cut off to a whole number, which is much for a small pod. So utilization is worked out from the
average usage that it reports beside it, where that and the requests are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from trellis.api.buckets import RESOURCES
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Metric, MetricSource
from trellis.base.errors import InvalidQuantity
from trellis.base.quantity import Quantity
from trellis.core.hvpa.views import HpaView
from trellis.core.recommend.capping.limit_ranges import Counts

_PERCENT, _MILLI = 100, 1000


def read_hpa(hpa: HorizontalPodAutoscaler, requests: Mapping[str, Counts], *, owned: bool) -> HpaView:
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


def _found(hpa: HorizontalPodAutoscaler, wanted: Metric, requests: Mapping[str, Counts]) -> Fraction | None:
    """The ratio of a metric, if its status has it."""
    ratios = (_ratio(wanted, current, requests) for current in hpa.status.current_metrics if _same(wanted, current))
    return max((each for each in ratios if each is not None), default=None)


def _own(hpa: HorizontalPodAutoscaler, requests: Mapping[str, Counts]) -> dict[str, Fraction]:
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


def _ratio(wanted: Metric, current: Metric, requests: Mapping[str, Counts]) -> Fraction | None:
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
    one: MetricSource, other: MetricSource, percent: int, requests: Mapping[str, Counts]
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
