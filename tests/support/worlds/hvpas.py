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
    return ResolvedHvpa.of(resolve_hvpa(msgspec.convert(hvpa_document(*buckets, **spec), Hvpa)))


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


def decided(seen: HvpaView, now: float = NOW, settings: HvpaSettings = SETTINGS) -> HvpaPlan:
    return plan_hvpa(seen, now, settings)


def shape(made: HvpaPlan) -> tuple[int, int | None, int | None]:
    """Count, millicores and bytes."""
    return made.shape.count, made.shape.size.get("cpu"), made.shape.size.get("memory")


class Follower:
    """A workload that does at once what is planned for it, a minute after the other."""

    def __init__(self, means: ResolvedHvpa, replicas: int, size: ResourceAmounts) -> None:
        self.means, self.replicas, self.size, self.memory, self.now = means, replicas, dict(size), HvpaMemory(), NOW

    def asked(self, total: ResourceAmounts, target: ResourceAmounts) -> HvpaPlan:
        """The plan of this minute."""
        seen = view(self.replicas, self.size, target, total, meaning=self.means, memory=self.memory)
        return decided(seen, now=self.now)

    def follow(self, total: ResourceAmounts, target: ResourceAmounts) -> HvpaPlan:
        """Let it be done, and a minute pass."""
        made = self.asked(total, target)
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
    seen: dict[str, int] = {}
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
        wish = max(self._by(name, current, usage[name], pods, ready) for name in self.percent)
        replicas = self.limits.limited(wish, current, now).replicas
        if replicas != current:
            self.limits.scaled(current, replicas, now)
        return replicas

    def _by(self, name: str, current: int, usage: Fraction, pods: list[PodModel], ready: list[PodModel]) -> int:
        asked = sum(pod.requests[name] for pod in ready)
        if not asked:
            return current
        self.seen[name] = math.floor(usage / len(ready))
        others = MeasuredPods(len(pods) - len(ready), sum(pod.requests[name] for pod in pods) - asked)
        seen = MeasuredTarget(MeasuredPods(len(ready), asked, math.floor(usage)), unready=others)
        return propose_replicas(seen, MetricGoal(percent=self.percent[name]), current, HpaTolerance())

    def as_object(self) -> HorizontalPodAutoscaler:
        """What the API server shows of it."""
        wanted = [_metric(name, target=MetricTarget(type="Utilization", average_utilization=percent))
                  for name, percent in self.percent.items()]  # fmt: skip
        seen = [
            _metric(name, current=MetricValue(average_value=f"{amount}m" if name == "cpu" else str(amount)))
            for name, amount in self.seen.items()
        ]
        spec = HorizontalPodAutoscalerSpec(
            min_replicas=self.min_replicas, max_replicas=self.max_replicas, metrics=tuple(wanted)
        )
        return HorizontalPodAutoscaler(spec=spec, status=HorizontalPodAutoscalerStatus(current_metrics=tuple(seen)))


def _metric(name: str, **source: Any) -> Metric:
    return Metric(type="Resource", resource=MetricSource(name=name, **source))


class VpaModel(msgspec.Struct):
    """A VPA: what it saw with a margin, of which it forgets so much at each look. `whole` is if anybody sums it up."""

    margin: Fraction = Fraction(1)
    keeps: Fraction = Fraction(99, 100)
    resources: tuple[str, ...] = ("cpu", "memory")
    whole: bool = True
    target: dict[str, int] = {}
    total: dict[str, int] = {}

    def look(self, usage: Mapping[str, Fraction], ready: int) -> None:
        """Sample the Ready pods, all of which use the same."""
        for name in self.resources:
            need = self.margin * usage[name]
            self.target[name] = max(math.ceil(need / ready), math.floor(self.target.get(name, 0) * self.keeps))
            self.total[name] = max(math.ceil(need), math.floor(self.total.get(name, 0) * self.keeps))


class World:
    """One workload. CPU is used by all Ready pods alike, and memory so, but for a base that each of them has."""

    def __init__(
        self,
        means: ResolvedHvpa,
        replicas: int,
        size: ResourceAmounts,
        *,
        cpu: int = 0,
        memory: int = 0,
        base: int = 0,
        hpa: HpaModel | None = None,
        vpa: VpaModel | None = None,
        startup: float = 0.0,
        told: Callable[[float], ResourceAmounts] = lambda _: {},
    ) -> None:
        self.now = NOW
        self.means, self.hpa, self.vpa, self.startup, self.told = means, hpa, vpa, startup, told
        self.cpu, self.memory, self.base = cpu, memory, base
        self.replicas, self.wish = replicas, replicas
        self.published: dict[str, int] = {}
        self.pods = [PodModel(NOW, dict(size)) for _ in range(replicas)]
        self.kept = HvpaMemory()
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
            proposal = self.hpa.proposal(self.wish, self.usage(), self.pods, self.now)
            self.writes += proposal != self.wish
            self.wish = proposal
        if self.vpa is not None and (self.now - NOW) % 60 == 0 and self.ready:
            self.vpa.look(self.usage(), len(self.ready))
        self.last = made = decided(self._view(), self.now)
        self.kept = made.memory
        for action in made.actions:
            if isinstance(action, SetScale):
                self.replicas = action.replicas
            elif isinstance(action, WriteBack):
                self.writes += 1
                self.wish = action.replicas
        self.published = dict(made.containers.get("app", self.published))
        self._settle()
        self.states.append(self.state)
        self.least.append({name: sum(pod.requests[name] for pod in self.ready) for name in ("cpu", "memory")})

    def _settle(self) -> None:
        """What the workload's controller, admission and the updater do."""
        for pod in self.pods:
            pod.requests.update(self.published)
        kept = self.pods[: self.replicas]
        new = [PodModel(self.now + self.startup, dict(self.pods[0].requests)) for _ in range(self.replicas - len(kept))]
        self.pods = kept + new

    def _view(self) -> HvpaView:
        pods = self.pods
        average = {
            name: math.ceil(Fraction(sum(pod.requests[name] for pod in pods), len(pods))) for name in pods[0].requests
        }
        least = {name: min(pod.requests[name] for pod in pods) for name in pods[0].requests}
        target = dict(self.vpa.target) if self.vpa is not None else {}
        total = dict(self.vpa.total) if self.vpa is not None and self.vpa.whole else {}
        return HvpaView(
            meaning=self.means,
            replicas=self.replicas,
            pods=len(pods),
            ready=len(self.ready),
            containers=(ContainerView("app", True, target, total, average, least, self.published),),
            wish=self.wish,
            hpa=read_hpa(self.hpa.as_object(), {"app": average}, owned=True) if self.hpa is not None else None,
            totals=self.told(self.now),
            memory=self.kept,
        )
