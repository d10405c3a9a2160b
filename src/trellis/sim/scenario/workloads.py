"""Workloads of a scenario, compiled: templates as manifests have them, demand, starts, rollouts and runs."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.problems import INVALID, Path, ValidationProblem
from trellis.api.scenario.usage import ContainerUsage
from trellis.api.scenario.workloads import JobRuns, Rollouts, ScenarioContainer, ScenarioWorkload, Startup
from trellis.base.cron import CronSchedule
from trellis.base.errors import InvalidInput
from trellis.core import fit
from trellis.core.usage.columns import FloatColumn
from trellis.sim.cluster.pods import BATCH_KINDS
from trellis.sim.fleet import CronRules, SimulatedWorkload, SimulationClock, StartProfile
from trellis.sim.scenario.usage import Steps, UsageLayout, parse_amount, parse_seconds, seeded_generator
from trellis.sim.scenario.usage_shapes import draw_factors, versions

DEFAULT_NAMESPACE = "default"
ALLOW = "Allow"
_SECOND = timedelta(seconds=1)
_SHAPES = ("trace", "weekly", "daily", "spiky", "trend", "phases", "steady")


def compile_workload(
    workload: ScenarioWorkload, clock: SimulationClock, seed: int, usage: UsageLayout, at: Path
) -> SimulatedWorkload:
    """Compile a workload; problems of its usage or its template are left with the layout."""
    try:
        written = convert_object(workload.pod_template or {}, PodTemplateSpec)
        # What the scheduler requires for each pod.
        fit.Demand.of(written.spec, metadata=written.metadata)
    except InvalidInput as error:
        usage.problems.append(ValidationProblem((*at, "podTemplate"), INVALID, error.rule, workload.name))
        workload = msgspec.structs.replace(workload, pod_template=None)
    namespace, kind = workload.namespace or DEFAULT_NAMESPACE, workload.kind or "Deployment"
    names = (namespace, workload.name)
    containers = workload.containers or []
    rollouts, factors = _rollouts(workload.rollouts, clock, seeded_generator(seed, *names, "rollouts"))
    runs = _runs(workload.runs, clock, seeded_generator(seed, *names, "runs"))
    steps = Steps(clock.begin, clock.step, clock.steps)
    if kind in BATCH_KINDS:
        longest = max((length for _, length in runs), default=clock.step)
        steps = Steps(clock.begin, clock.step, int(-(-longest // clock.step)) + 1, by_age=True)
        factors = np.ones(steps.count)
    demand = tuple(
        usage.demand(
            container.name,
            container.usage or ContainerUsage(),
            steps,
            factors=factors,
            names=names,
            at=(*at, "containers", number, "usage"),
        )
        for number, container in enumerate(containers)
    )
    template = pod_template(workload)
    budget = workload.disruption_budget
    return SimulatedWorkload(
        namespace=namespace,
        name=workload.name,
        kind=kind,
        replicas=1 if workload.replicas is None else workload.replicas,
        template=template,
        demand=demand,
        start=_start(workload.startup, template),
        rollouts=rollouts,
        runs=runs,
        max_unavailable=budget.max_unavailable if budget is not None else None,
        label=workload.label or _label(workload),
        completions=workload.runs.completions if workload.runs is not None else None,
        cron=_cron(workload.runs) if kind == "CronJob" and workload.runs is not None else None,
    )


def pod_template(workload: ScenarioWorkload) -> dict[str, Any]:
    """The pod template as a manifest has it, with the fields of each container of the scenario."""
    template: dict[str, Any] = copy.deepcopy(workload.pod_template) if workload.pod_template else {}
    metadata = template["metadata"] = dict(template.get("metadata") or {})
    metadata["labels"] = metadata.get("labels") or {"app.kubernetes.io/name": workload.name}
    spec = template.setdefault("spec", {})
    written = {each.get("name"): each for part in ("initContainers", "containers") for each in spec.get(part) or ()}
    if workload.kind in BATCH_KINDS:
        spec.setdefault("restartPolicy", "OnFailure")
    probed = workload.startup is None or workload.startup.probe is not False
    for container in workload.containers or ():
        result = written.get(container.name)
        if result is None:
            result = {"name": container.name, "image": f"example/{container.name}:1.0"}
            if probed and workload.kind not in BATCH_KINDS:
                result["readinessProbe"] = {"httpGet": {"path": "/ready", "port": 8080}}
            spec.setdefault("containers", []).append(result)
        _write(result, container)
    return template


def _write(target: dict[str, Any], container: ScenarioContainer) -> None:
    resources = target["resources"] = dict(target.get("resources") or {})
    for name, amounts in (("requests", container.requests), ("limits", container.limits)):
        if amounts is not None:
            resources[name] = {resource: str(text) for resource, text in amounts.items()}
    policy = container.resize_policy
    if policy is not None:
        chosen = (("cpu", policy.cpu), ("memory", policy.memory))
        target["resizePolicy"] = [{"resourceName": name, "restartPolicy": policy} for name, policy in chosen if policy]


def _start(startup: Startup | None, template: dict[str, Any]) -> StartProfile:
    """How a pod starts; a complete template says itself whether it has a probe."""
    written = startup or Startup()
    containers = template["spec"].get("containers", ())
    probed = any("readinessProbe" in container or "startupProbe" in container for container in containers)
    return StartProfile(
        seconds=parse_seconds(written.time, 5.0),
        work=written.work or 0.0,
        cores=parse_amount(written.cores, 1.0),
        probe=probed if written.probe is None else written.probe,
    )


def _rollouts(
    rollouts: Rollouts | None, clock: SimulationClock, draw: np.random.Generator
) -> tuple[tuple[float, ...], FloatColumn]:
    """The times of rollouts, and the factors of usage in every step."""
    if rollouts is None:
        return (), np.ones(clock.steps)
    length = clock.step * clock.steps
    after = {parse_seconds(each) for each in rollouts.at or ()}
    if rollouts.every is not None:
        after.update(np.arange(parse_seconds(rollouts.every), length, parse_seconds(rollouts.every)).tolist())
    moments = tuple(clock.begin + each for each in sorted(after) if 0 < each < length)
    factors = tuple(rollouts.factors or ())
    if not factors and rollouts.shift:
        factors = draw_factors(len(moments), rollouts.shift, draw)
    times = Steps(clock.begin, clock.step, clock.steps).times
    return moments, versions(times, moments, factors)


def _runs(runs: JobRuns | None, clock: SimulationClock, draw: np.random.Generator) -> tuple[tuple[float, float], ...]:
    """Begin and length of each run that begins before the end."""
    if runs is None:
        return ()
    usual, most = parse_seconds(runs.length), np.inf
    if runs.schedule is not None:
        begins = np.array([] if runs.suspend else list_firings(runs.schedule, runs.time_zone or "UTC", clock))
    else:
        most = parse_seconds(runs.every)
        begins = clock.begin + np.arange(parse_seconds(runs.first), clock.step * clock.steps, most)
    differ = draw.uniform(1 - (runs.jitter or 0.0), 1 + (runs.jitter or 0.0), len(begins))
    lengths = np.minimum(usual * differ, most)
    return tuple(zip(begins.tolist(), lengths.tolist(), strict=True))


def list_firings(schedule: str, time_zone: str, clock: SimulationClock) -> list[float]:
    """When a schedule fires in the simulated time; `InvalidSchedule` if it cannot be parsed."""
    parsed, times = CronSchedule.parse(schedule, time_zone), []
    # A moment before the beginning, at which it may fire.
    at = parsed.next(datetime.fromtimestamp(clock.begin, UTC) - _SECOND)
    while at is not None and at.timestamp() < clock.end:
        times.append(at.timestamp())
        at = parsed.next(at)
    return times


def _cron(runs: JobRuns) -> CronRules:
    deadline = parse_seconds(runs.starting_deadline) if runs.starting_deadline is not None else None
    return CronRules(runs.schedule or "", runs.time_zone or "", runs.concurrency_policy or ALLOW, deadline)


def _label(workload: ScenarioWorkload) -> str:
    """The label of a workload, after what stands out in its usage."""
    usages = [container.usage for container in workload.containers or () if container.usage is not None]
    if workload.runs is not None:
        return "batch"
    if any(usage.memory is not None and usage.memory.leak is not None for usage in usages):
        return "leak"
    if workload.rollouts is not None and (workload.rollouts.factors or workload.rollouts.shift):
        return "deploys"
    shapes = [each for usage in usages for each in (usage.cpu, usage.memory) if each is not None]
    return next((name for name in _SHAPES if any(getattr(shape, name) is not None for shape in shapes)), "idle")
