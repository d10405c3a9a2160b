"""HPAs on the model cluster: what they see of its pods, what they write into scales, what they say of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.worlds.simulated_cluster import BEGIN, GIB, World, container, container_demand, fleet, shape, workload
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.scaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    Metric,
    MetricSource,
    MetricTarget,
    Scale,
    ScaleSpec,
    ScalingBehavior,
    ScalingRules,
)
from trellis.core.cluster.write_results import WriteResult
from trellis.sim.cluster import StepUsage
from trellis.sim.cluster.api_server import ScaleRegistry
from trellis.sim.components.hpa import SimulatedHpas
from trellis.sim.components.hpa_metrics import ModelPodMetrics
from trellis.sim.fleet import SimulatedWorkload, StartProfile

STEP = 15.0
AT_ONCE = ScalingBehavior(scale_down=ScalingRules(stabilization_window_seconds=0))


def metric(name: str = "cpu", percent: int | None = 50, average: str = "", in_container: str = "") -> Metric:
    target = MetricTarget("Utilization" if percent else "AverageValue", "", average, percent)
    source = MetricSource(name, in_container, target=target)
    if in_container:
        return Metric("ContainerResource", container_resource=source)
    return Metric("Resource", resource=source)


def hpa(*metrics: Metric, name: str = "web", **spec: Any) -> HorizontalPodAutoscaler:
    target = CrossVersionObjectReference(spec.pop("kind", "Deployment"), spec.pop("of", "web"))
    usual = {"min_replicas": 1, "max_replicas": 20, "behavior": AT_ONCE, **spec}
    return HorizontalPodAutoscaler(
        ObjectMeta(name=name, namespace="shop"), HorizontalPodAutoscalerSpec(target, metrics=metrics, **usual)
    )


def web(cpu: Any, replicas: int = 2, **more: Any) -> SimulatedWorkload:
    """Pods of half a core, which share a load in cores."""
    demand = (container_demand(cpu=cpu, memory=0.0, shared=True, base_memory=0.25 * GIB, steps=200),)
    return workload("web", replicas, container(cpu="500m", memory="1Gi"), demand=demand, **more)


class Scaled:
    """A model cluster with HPAs: they look when a step of usage begins, at what was measured in the one before."""

    def __init__(self, *workloads: SimulatedWorkload, gap: bool = False, cpu: str = "64") -> None:
        self.world = World(fleet(*workloads, nodes=(shape(cpu, "256Gi"),), step=STEP, steps=200))
        self.cluster = self.world.cluster
        self.scales = ScaleRegistry(self.cluster)
        self.metrics = ModelPodMetrics(self.cluster)
        self.statuses: list[HorizontalPodAutoscaler] = []
        self.hpas = SimulatedHpas(
            self.world.kernel, self.scales, self.metrics, self.cluster.select_workloads, on_status=self.statuses.append
        )
        self.gap = gap
        self._measured = 0

    def run(self, passes: int) -> Scaled:
        for _ in range(passes):
            self.world.run(STEP)
            for usage in self.world.usages[self._measured :]:
                self._measured += 1
                self.metrics.on_usage(usage, self._gaps(usage))
            self.hpas.reconcile_all()
        return self

    def _gaps(self, usage: StepUsage) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        return np.zeros(len(usage), dtype=np.bool_) if self.gap else None

    def count(self, name: str = "web", kind: str = "Deployment") -> int:
        scale = self.cluster.scale("shop", kind, name)
        assert scale is not None
        return scale.spec.replicas

    def find(self, name: str = "web") -> HorizontalPodAutoscaler:
        result = self.hpas.find(("shop", name))
        assert result is not None
        return result

    def conditions(self, name: str = "web") -> dict[str, tuple[str, str]]:
        return {condition.type: (condition.status, condition.reason) for condition in self.find(name).status.conditions}


def with_hpa(hpa: HorizontalPodAutoscaler, *workloads: SimulatedWorkload, **more: Any) -> Scaled:
    scaled = Scaled(*workloads, **more)
    scaled.hpas.put(hpa)
    return scaled


def test_an_hpa_follows_a_load_until_each_pod_is_at_the_target() -> None:
    # Six cores at half of 0.5 each are 24 pods; one and a half are 6.
    cores = np.concatenate([np.full(40, 6.0), np.full(160, 1.5)])
    scaled = with_hpa(hpa(metric(), max_replicas=40), web(cores))
    counts = [scaled.run(1).count() for _ in range(38)]
    assert counts[-1] == 24
    assert counts == sorted(counts)
    assert scaled.run(40).count() == 6
    assert scaled.conditions()["ScalingActive"] == ("True", "ValidMetricFound")
    assert scaled.cluster.counters.pods_made[0] == 24


def test_figures_worked_out_by_hand() -> None:
    """Two pods request 500m and use 450m each: 90 % of a target of 50 %, so 1.8 times two pods, which is 4.

    The status says what was seen: 90 %, and 450m on average.
    """
    scaled = with_hpa(hpa(metric()), web(0.9)).run(1)
    assert scaled.count() == 4
    status = scaled.statuses[-1].status
    assert (status.current_replicas, status.desired_replicas) == (2, 4)
    (current,) = status.current_metrics
    assert current.resource is not None
    assert (current.resource.current.average_utilization, current.resource.current.average_value) == (90, "450m")
    assert scaled.conditions() == {
        "AbleToScale": ("True", "SucceededRescale"),
        "ScalingActive": ("True", "ValidMetricFound"),
        "ScalingLimited": ("False", "DesiredWithinRange"),
    }
    assert status.last_scale_time is not None
    assert status.last_scale_time.timestamp() == scaled.world.kernel.now


def test_an_average_value_of_memory_is_compared_without_requests() -> None:
    scaled = with_hpa(hpa(metric("memory", None, "100Mi")), web(0.1)).run(1)
    # 256 MiB each over 100 MiB: 2 x 2.56.
    assert scaled.count() == 6


def test_the_highest_proposal_of_all_metrics_counts() -> None:
    both = (metric("cpu", 90), metric("memory", None, "128Mi"))
    assert with_hpa(hpa(*both), web(0.1)).run(1).count() == 4
    assert with_hpa(hpa(*reversed(both)), web(0.1)).run(1).count() == 4


def test_a_metric_of_one_container_leaves_the_others_alone() -> None:
    pods = workload(
        "web",
        2,
        container("app", cpu="500m"),
        container("sidecar", cpu="500m"),
        demand=(container_demand(cpu=0.4, steps=200), container_demand(cpu=0.0, name="sidecar", steps=200)),
    )
    assert with_hpa(hpa(metric(percent=40)), pods).run(3).count() == 2
    assert with_hpa(hpa(metric(percent=40, in_container="app")), pods).run(1).count() == 4
    absent = with_hpa(hpa(metric(percent=40, in_container="nobody")), pods).run(3)
    assert absent.count() == 2
    assert absent.conditions()["ScalingActive"] == ("False", "FailedGetContainerResourceMetric")


def test_an_hpa_does_not_scale_without_metrics() -> None:
    scaled = with_hpa(hpa(metric()), web(4.0), gap=True).run(10)
    assert scaled.count() == 2
    assert scaled.conditions()["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert scaled.find().status.current_metrics == ()


def test_a_failing_metric_prevents_scale_down_but_not_scale_up() -> None:
    failing = metric(percent=50, in_container="nobody")
    assert with_hpa(hpa(metric(), failing), web(0.1, 4)).run(30).count() == 4
    assert with_hpa(hpa(metric(), failing), web(2.0, 4)).run(30).count() == 8


def test_a_container_without_a_request_has_no_utilization() -> None:
    bare = workload("web", 2, {"name": "app"}, demand=(container_demand(cpu=1.0, steps=200),))
    scaled = with_hpa(hpa(metric()), bare).run(3)
    assert scaled.count() == 2
    assert scaled.conditions()["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert with_hpa(hpa(metric(percent=None, average="500m")), bare).run(1).count() == 4


def test_a_count_outside_the_bounds_is_brought_inside_without_a_look_at_metrics() -> None:
    assert with_hpa(hpa(metric(), max_replicas=3), web(0.5, 5), gap=True).run(1).count() == 3
    assert with_hpa(hpa(metric(), min_replicas=3), web(0.5, 1), gap=True).run(1).count() == 3


def test_zero_replicas_switch_it_off() -> None:
    scaled = with_hpa(hpa(metric(), min_replicas=2), web(0.5, 3)).run(2)
    scaled.cluster.set_scale("shop", "Deployment", "web", 0)
    assert scaled.run(5).count() == 0
    assert scaled.conditions()["ScalingActive"] == ("False", "ScalingDisabled")
    scaled.cluster.set_scale("shop", "Deployment", "web", 1)
    assert scaled.run(1).count() == 2


def test_a_missing_target_is_reported() -> None:
    scaled = with_hpa(hpa(metric(), of="nobody"), web(0.5)).run(2)
    assert scaled.conditions() == {"AbleToScale": ("False", "FailedGetScale")}


def test_two_hpas_about_the_same_pods_both_hold_still() -> None:
    scaled = with_hpa(hpa(metric()), web(4.0))
    scaled.hpas.put(hpa(metric(percent=10), name="other"))
    assert scaled.run(10).count() == 2
    for name in ("web", "other"):
        assert scaled.conditions(name)["ScalingActive"] == ("False", "AmbiguousSelector")


def test_pods_that_start_up_do_not_count_with_their_cpu() -> None:
    # The start takes two minutes of a whole core, which is twice the request.
    start = StartProfile(seconds=1.0, work=120.0, cores=1.0)
    scaled = with_hpa(hpa(metric()), web(0.5, 2, start=start)).run(6)
    assert scaled.count() == 2
    assert scaled.conditions()["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert scaled.run(20).count() == 2
    assert scaled.conditions()["ScalingActive"] == ("True", "ValidMetricFound")


def test_their_memory_does_count() -> None:
    start = StartProfile(seconds=1.0, work=120.0, cores=1.0)
    scaled = with_hpa(hpa(metric("memory", None, "128Mi")), web(0.5, 2, start=start)).run(1)
    assert scaled.count() == 4


def test_pods_that_are_on_their_way_keep_it_from_asking_for_more() -> None:
    # Two pods use all of their requests: four are asked for. While they start, the load of the two is seen as that of
    # all four, and once they share it nothing is left to do.
    start = StartProfile(seconds=60.0)
    scaled = with_hpa(hpa(metric()), web(1.0, 2, start=start))
    counts = [scaled.run(1).count() for _ in range(30)]
    assert sorted(set(counts)) == [2, 4]


def test_pods_without_a_node_keep_it_from_asking_for_more() -> None:
    scaled = with_hpa(hpa(metric()), web(1.0, 2), cpu="1").run(30)
    assert scaled.count() == 4
    assert scaled.cluster.pending == 2


def test_a_changed_request_changes_the_answer() -> None:
    scaled = with_hpa(hpa(metric(percent=80), min_replicas=2), web(0.8)).run(4)
    assert scaled.count() == 2
    for pod in scaled.world.list_pods():
        result, _ = scaled.world.resize(pod, cpu="250m")
        assert result is WriteResult.APPLIED
    assert scaled.run(1).count() == 4


def test_an_hpa_writes_only_changed_counts_and_reports_only_changed_status() -> None:
    scaled = with_hpa(hpa(metric()), web(0.5)).run(4)
    result = len(scaled.statuses)
    scaled.run(10)
    assert len(scaled.statuses) == result
    assert scaled.cluster.counters.scalings.tolist() == [0]


def test_a_write_that_fails_is_reported_and_tried_again() -> None:
    scaled = with_hpa(hpa(metric(), kind="Other"), web(1.0))
    refuses = [WriteResult.CONFLICT, WriteResult.APPLIED]

    class Other:
        def scale(self, namespace: str, _kind: str, name: str) -> Any:
            return scaled.cluster.scale(namespace, "Deployment", name)

        def set_scale(self, namespace: str, _kind: str, name: str, replicas: int, *, version: str = "") -> WriteResult:
            if (result := refuses.pop(0)) is WriteResult.APPLIED:
                scaled.cluster.set_scale(namespace, "Deployment", name, replicas, version=version)
            return result

    scaled.scales.register("Other", Other())
    scaled.run(1)
    assert scaled.conditions()["AbleToScale"] == ("False", "FailedUpdateScale")
    assert scaled.count() == 2
    assert scaled.run(1).count() == 4


def test_a_scale_without_a_selector_leads_nowhere() -> None:
    scaled = with_hpa(hpa(metric(), kind="Other"), web(1.0))

    class Other:
        def scale(self, _namespace: str, _kind: str, _name: str) -> Any:
            return Scale(spec=ScaleSpec(2))

        def set_scale(self, *_: Any, **_more: Any) -> WriteResult:
            raise AssertionError

    scaled.scales.register("Other", Other())
    assert scaled.run(2).conditions()["ScalingActive"] == ("False", "InvalidSelector")


def test_an_hpa_without_metrics_scales_by_cpu_at_eighty_percent() -> None:
    assert with_hpa(hpa(), web(0.8)).run(4).count() == 2
    assert with_hpa(hpa(), web(1.0)).run(4).count() == 3


def test_a_tolerance_can_be_written_for_each_direction() -> None:
    wide = ScalingBehavior(ScalingRules(tolerance="1"), AT_ONCE.scale_down)
    assert with_hpa(hpa(metric(), behavior=wide), web(0.9)).run(4).count() == 2


def test_the_condition_keeps_its_time_while_its_value_holds() -> None:
    scaled = with_hpa(hpa(metric()), web(0.5)).run(3)
    (since,) = (
        condition.last_transition_time
        for condition in scaled.find().status.conditions
        if condition.type == "ScalingActive"
    )
    scaled.run(10)
    (later,) = (
        condition.last_transition_time
        for condition in scaled.find().status.conditions
        if condition.type == "ScalingActive"
    )
    assert since == later
    assert since is not None
    assert since.timestamp() < BEGIN + 3 * STEP + 1


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_both_kinds_are_scaled(kind: str) -> None:
    result = with_hpa(hpa(metric(), kind=kind), web(1.0, 2, kind=kind)).run(10)
    assert result.count(kind=kind) == 4
