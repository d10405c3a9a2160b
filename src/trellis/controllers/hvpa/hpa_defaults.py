"""What does the API server (Kubernetes 1.36) fill into an HPA that leaves it out?

Without knowing it nobody can tell a template that has lost its metrics or its behavior from one that never had any: the
HPA that was made from it would keep them for ever, a switched off way up among them.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from trellis.api.kube.scaling import (
    HorizontalPodAutoscalerSpec,
    Metric,
    MetricSource,
    MetricTarget,
    ScalingBehavior,
    ScalingPolicy,
    ScalingRules,
)

_CPU: Final = MetricSource(name="cpu", target=MetricTarget(type="Utilization", average_utilization=80))
_METRICS: Final = (Metric(type="Resource", resource=_CPU),)
_UP: Final = ScalingRules(0, "Max", (ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15)))
_DOWN: Final = ScalingRules(None, "Max", (ScalingPolicy("Percent", 100, 15),))


def completed(spec: HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
    """The HPA as it is stored. Rules are filled in only where there is a behavior."""
    behavior = spec.behavior
    if behavior is not None:
        behavior = ScalingBehavior(_filled(behavior.scale_up, _UP), _filled(behavior.scale_down, _DOWN))
    fewest = 1 if spec.min_replicas is None else spec.min_replicas
    return replace(spec, min_replicas=fewest, metrics=spec.metrics or _METRICS, behavior=behavior)


def _filled(rules: ScalingRules | None, usual: ScalingRules) -> ScalingRules:
    if rules is None:
        return usual
    window = rules.stabilization_window_seconds
    return ScalingRules(
        usual.stabilization_window_seconds if window is None else window,
        rules.select_policy or usual.select_policy,
        rules.policies or usual.policies,
        rules.tolerance,
    )
