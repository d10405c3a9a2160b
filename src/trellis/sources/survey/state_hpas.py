"""Which HPAs are there, going by kube-state-metrics? A metric of one container is told as if it were the pod's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.scaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    Metric,
    MetricSource,
    MetricTarget,
)
from trellis.sources.survey.state_metrics import HPA, HPA_LEAST, HPA_MOST, HPA_NOW, HPA_TARGET, Labels, Name, Spelling

_UTILIZATION: Final = "utilization"


class StateHpas:
    """Takes in series, and says which HPAs they were made from."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._targets: dict[Name, CrossVersionObjectReference] = {}
        self._metrics: dict[Name, list[Metric]] = {}
        self._counts: dict[Name, dict[str, int]] = {}

    def take(self, metric: str, labels: Labels, value: float) -> None:
        """One series of a metric about HPAs."""
        name = self._spelling.named(labels, "horizontalpodautoscaler")
        if metric == HPA:
            kind, target = labels.get("scaletargetref_kind", ""), labels.get("scaletargetref_name", "")
            api_version = labels.get("scaletargetref_api_version", "")
            self._targets[name] = CrossVersionObjectReference(kind, target, api_version)
        elif metric == HPA_TARGET:
            self._metrics.setdefault(name, []).append(_metric(labels, value))
        else:
            self._counts.setdefault(name, {})[metric] = int(value)

    def found(self) -> list[HorizontalPodAutoscaler]:
        """Those of which it is known what they scale."""
        return [
            _hpa(name, target, tuple(self._metrics.get(name, ())), self._counts.get(name, {}))
            for name, target in sorted(self._targets.items())
        ]


def _metric(labels: Labels, value: float) -> Metric:
    if labels.get("metric_target_type") == _UTILIZATION:
        target = MetricTarget("Utilization", average_utilization=round(value))
    else:
        target = MetricTarget("AverageValue", average_value=f"{round(value * 1000)}m")
    return Metric(type="Resource", resource=MetricSource(name=labels.get("metric_name", ""), target=target))


def _hpa(
    name: Name, target: CrossVersionObjectReference, metrics: tuple[Metric, ...], counts: Mapping[str, int]
) -> HorizontalPodAutoscaler:
    spec: dict[str, Any] = {"min_replicas": counts.get(HPA_LEAST), "max_replicas": counts.get(HPA_MOST, 0)}
    return HorizontalPodAutoscaler(
        ObjectMeta(name=name[1], namespace=name[0]),
        HorizontalPodAutoscalerSpec(scale_target_ref=target, metrics=metrics, **spec),
        HorizontalPodAutoscalerStatus(current_replicas=counts.get(HPA_NOW, 0)),
    )
