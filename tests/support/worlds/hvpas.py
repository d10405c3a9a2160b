"""Workloads for tests of an Hvpa's decisions, and a closed loop around them on virtual time.

`view` makes a workload of equal pods, and `decided` asks for a plan; `Follower` does at once what is planned. `World`
lives: an HPA and a VPA look at what its pods use, the Hvpa decides, pods come and become Ready, and an updater resizes
them in place. The HPA is the simulator's model of the controller of Kubernetes 1.36: whole percentages, tolerance,
unready pods, bounds, limits per step, and silence when nothing is to change. The VPA sees growth at once and forgets
slowly, once for a pod and once for the whole workload.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from support.builders.manifests import hvpa as hvpa_document
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kube.scaling import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    Metric,
    MetricSource,
    MetricTarget,
    MetricValue,
    ScalingBehavior,
    ScalingRules,
)
from trellis.api.resolve import resolve_hvpa
from trellis.core.hvpa import (
    ContainerView,
    HvpaMemory,
    HvpaPlan,
    HvpaSettings,
    HvpaView,
    ResolvedHvpa,
    SetScale,
    WriteBack,
    plan_hvpa,
    read_hpa,
)
from trellis.core.recommend.amounts import ResourceAmounts, parse_amounts
from trellis.sim.components.hpa_replicas import (
    HpaScaleLimits,
    HpaTolerance,
    MeasuredPods,
    MeasuredTarget,
    MetricGoal,
    propose_replicas,
)

NOW = 1_800_000_000.0
GIGA = 10**9
SETTINGS = HvpaSettings()
TICK = 5.0
DOWN_AT_ONCE = ScalingBehavior(scale_down=ScalingRules(stabilization_window_seconds=0))


def meaning(*buckets: Any, **spec: Any) -> ResolvedHvpa:
    """What an Hvpa with these buckets means; story 1 without any."""
    return ResolvedHvpa.from_effective(resolve_hvpa(msgspec.convert(hvpa_document(*buckets, **spec), Hvpa)))


def amounts(cpu: str | None = None, memory: str | None = None) -> ResourceAmounts:
    """Millicores and bytes."""
    return parse_amounts({name: text for name, text in (("cpu", cpu), ("memory", memory)) if text is not None})


def view(
    replicas: int,
    size: ResourceAmounts,
    target: ResourceAmounts | None = None,
    total: ResourceAmounts | None = None,
    **more: Any,
) -> HvpaView:
    """A workload of one container, whose pods are Ready and as they were published. The meaning is story 1's."""
    container = ContainerView("app", True, target or {}, total or {}, size, size, size)
    fields = {"meaning": meaning(), "pods": replicas, "ready": replicas, "containers": (container,), **more}
    return HvpaView(replicas=replicas, **fields)


def decided(hvpa_view: HvpaView, now: float = NOW, settings: HvpaSettings = SETTINGS) -> HvpaPlan:
    return plan_hvpa(hvpa_view, now, settings)


def shape(made: HvpaPlan) -> tuple[int, int | None, int | None]:
    """Count, millicores and bytes."""
    return made.shape.count, made.shape.size.get("cpu"), made.shape.size.get("memory")


class Follower:
    """A workload that does at once what is planned for it, a minute after the other."""

    def __init__(self, resolved: ResolvedHvpa, replicas: int, size: ResourceAmounts) -> None:
        self.meaning, self.replicas, self.size, self.memory, self.now = (
            resolved,
            replicas,
            dict(size),
            HvpaMemory(),
            NOW,
        )

    def plan(self, total: ResourceAmounts, target: ResourceAmounts) -> HvpaPlan:
        """The plan of this minute."""
        hvpa_view = view(self.replicas, self.size, target, total, meaning=self.meaning, memory=self.memory)
        return decided(hvpa_view, now=self.now)

    def follow(self, total: ResourceAmounts, target: ResourceAmounts) -> HvpaPlan:
        """Let it be done, and a minute pass."""
        made = self.plan(total, target)
        for action in made.actions:
            self.replicas = action.replicas if isinstance(action, SetScale) else self.replicas
        self.size = dict(made.containers.get("app", self.size))
        self.memory, self.now = made.memory, self.now + 60
        return made

    @property
    def state(self) -> tuple[int, ResourceAmounts]:
        """Count, and what each pod has."""
        return self.replicas, self.size


class PodModel(msgspec.Struct):
    """A pod; it has become Ready by `ready_at`."""

    ready_at: float
    requests: dict[str, int]


class HpaModel(msgspec.Struct):
    """An HPA on utilization, in percent by resource, that does not wait before it scales down: the simulator's own."""

    percent: Mapping[str, int]
    min_replicas: int = 1
    max_replicas: int = 16
    usage_per_pod: dict[str, int] = {}
    limits: HpaScaleLimits | None = None

    def proposal(self, current: int, usage: Mapping[str, Fraction], pods: list[PodModel], now: float) -> int:
        """What it would write; the current count if there is nothing to do."""
        if current > self.max_replicas:
            return self.max_replicas
        if current < self.min_replicas:
            return self.min_replicas
        ready = [pod for pod in pods if pod.ready_at <= now]
        if not ready:
            return current
        if self.limits is None:
            self.limits = HpaScaleLimits(self.min_replicas, self.max_replicas, DOWN_AT_ONCE)
        proposed = max(self._propose_by(name, current, usage[name], pods, ready) for name in self.percent)
        replicas = self.limits.limit(proposed, current, now).replicas
        if replicas != current:
            self.limits.record_scaling(current, replicas, now)
        return replicas

    def _propose_by(self, name: str, current: int, usage: Fraction, pods: list[PodModel], ready: list[PodModel]) -> int:
        requested = sum(pod.requests[name] for pod in ready)
        if not requested:
            return current
        self.usage_per_pod[name] = math.floor(usage / len(ready))
        others = MeasuredPods(len(pods) - len(ready), sum(pod.requests[name] for pod in pods) - requested)
        measured = MeasuredTarget(MeasuredPods(len(ready), requested, math.floor(usage)), unready=others)
        return propose_replicas(measured, MetricGoal(percent=self.percent[name]), current, HpaTolerance())

    def as_object(self) -> HorizontalPodAutoscaler:
        """What the API server shows of it."""
        metrics = [_metric(name, target=MetricTarget(type="Utilization", average_utilization=percent))
                  for name, percent in self.percent.items()]  # fmt: skip
        current_metrics = [
            _metric(name, current=MetricValue(average_value=f"{amount}m" if name == "cpu" else str(amount)))
            for name, amount in self.usage_per_pod.items()
        ]
        spec = HorizontalPodAutoscalerSpec(
            min_replicas=self.min_replicas, max_replicas=self.max_replicas, metrics=tuple(metrics)
        )
        return HorizontalPodAutoscaler(
            spec=spec, status=HorizontalPodAutoscalerStatus(current_metrics=tuple(current_metrics))
        )


def _metric(name: str, **source: Any) -> Metric:
    return Metric(type="Resource", resource=MetricSource(name=name, **source))


class VpaModel(msgspec.Struct):
    """A VPA: the usage with a margin, which decays with each sample. `reports_totals` adds the sum over all pods."""

    margin: Fraction = Fraction(1)
    decay: Fraction = Fraction(99, 100)
    resources: tuple[str, ...] = ("cpu", "memory")
    reports_totals: bool = True
    target: dict[str, int] = {}
    total: dict[str, int] = {}

    def sample(self, usage: Mapping[str, Fraction], ready: int) -> None:
        """Sample the Ready pods, all of which use the same."""
        for name in self.resources:
            need = self.margin * usage[name]
            self.target[name] = max(math.ceil(need / ready), math.floor(self.target.get(name, 0) * self.decay))
            self.total[name] = max(math.ceil(need), math.floor(self.total.get(name, 0) * self.decay))


class World:
    """One workload. CPU is used by all Ready pods alike, and memory so, but for a base that each of them has."""

    def __init__(
        self,
        resolved: ResolvedHvpa,
        replicas: int,
        size: ResourceAmounts,
        *,
        cpu: int = 0,
        memory: int = 0,
        base: int = 0,
        hpa: HpaModel | None = None,
        vpa: VpaModel | None = None,
        startup: float = 0.0,
        totals: Callable[[float], ResourceAmounts] = lambda _: {},
    ) -> None:
        self.now = NOW
        self.meaning, self.hpa, self.vpa, self.startup, self.totals = resolved, hpa, vpa, startup, totals
        self.cpu, self.memory, self.base = cpu, memory, base
        self.replicas, self.spec_replicas = replicas, replicas
        self.published: dict[str, int] = {}
        self.pods = [PodModel(NOW, dict(size)) for _ in range(replicas)]
        self.hvpa_memory = HvpaMemory()
        self.states: list[tuple[int, int, int]] = []
        self.least: list[ResourceAmounts] = []
        self.writes = 0
        self.last: HvpaPlan | None = None

    def run(self, seconds: float, step: Callable[[World], None] | None = None) -> World:
        """Let time pass; `step` is called before each tick."""
        until = self.now + seconds
        while self.now < until:
            if step is not None:
                step(self)
            self._tick()
            self.now += TICK
        return self

    @property
    def state(self) -> tuple[int, int, int]:
        """Count, millicores and bytes that the Hvpa has decided."""
        assert self.last is not None
        shape = self.last.shape
        return shape.count, shape.size.get("cpu", 0), shape.size.get("memory", 0)

    @property
    def ready(self) -> list[PodModel]:
        return [pod for pod in self.pods if pod.ready_at <= self.now]

    def usage(self) -> dict[str, Fraction]:
        """Of all Ready pods together."""
        return {"cpu": Fraction(self.cpu), "memory": Fraction(self.memory + self.base * len(self.ready))}

    def path(self, begin: int = 0) -> list[tuple[int, int, int]]:
        """The states it went through from one of them on, each once in a row."""
        states = self.states[begin:]
        return [state for at, state in enumerate(states) if not at or states[at - 1] != state]

    def _tick(self) -> None:
        if self.hpa is not None and (self.now - NOW) % 15 == 5:
            proposal = self.hpa.proposal(self.spec_replicas, self.usage(), self.pods, self.now)
            self.writes += proposal != self.spec_replicas
            self.spec_replicas = proposal
        if self.vpa is not None and (self.now - NOW) % 60 == 0 and self.ready:
            self.vpa.sample(self.usage(), len(self.ready))
        self.last = made = decided(self._view(), self.now)
        self.hvpa_memory = made.memory
        for action in made.actions:
            if isinstance(action, SetScale):
                self.replicas = action.replicas
            elif isinstance(action, WriteBack):
                self.writes += 1
                self.spec_replicas = action.replicas
        self.published = dict(made.containers.get("app", self.published))
        self._update_pods()
        self.states.append(self.state)
        self.least.append({name: sum(pod.requests[name] for pod in self.ready) for name in ("cpu", "memory")})

    def _update_pods(self) -> None:
        """What the workload's controller, admission and the updater do."""
        for pod in self.pods:
            pod.requests.update(self.published)
        remaining = self.pods[: self.replicas]
        new = [
            PodModel(self.now + self.startup, dict(self.pods[0].requests))
            for _ in range(self.replicas - len(remaining))
        ]
        self.pods = remaining + new

    def _view(self) -> HvpaView:
        pods = self.pods
        average = {
            name: math.ceil(Fraction(sum(pod.requests[name] for pod in pods), len(pods))) for name in pods[0].requests
        }
        least = {name: min(pod.requests[name] for pod in pods) for name in pods[0].requests}
        target = dict(self.vpa.target) if self.vpa is not None else {}
        total = dict(self.vpa.total) if self.vpa is not None and self.vpa.reports_totals else {}
        return HvpaView(
            meaning=self.meaning,
            replicas=self.replicas,
            pods=len(pods),
            ready=len(self.ready),
            containers=(ContainerView("app", True, target, total, average, least, self.published),),
            spec_replicas=self.spec_replicas,
            hpa=read_hpa(self.hpa.as_object(), {"app": average}, owned=True) if self.hpa is not None else None,
            published_totals=self.totals(self.now),
            memory=self.hvpa_memory,
        )
