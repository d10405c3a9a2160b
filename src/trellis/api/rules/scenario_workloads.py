"""Validation rules of a Scenario's workloads and of their usage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import Container, PodTemplateSpec
from trellis.api.problems import FORBIDDEN, INVALID, REQUIRED, ValidationProblem
from trellis.api.scenario.usage import ContainerUsage, DailyShape, ResourceUsage, SpikyShape, UsagePhase, WeeklyShape
from trellis.api.scenario.workloads import FleetMix, JobRuns, MixShares, Rollouts, ScenarioContainer, ScenarioWorkload
from trellis.api.schema.fields import Rule, rule
from trellis.base.cron import CronSchedule
from trellis.base.durations import parse_span
from trellis.base.errors import InvalidQuantity, InvalidSchedule, UnreadableObject
from trellis.base.names import check_dns_label, suggest_name
from trellis.base.quantities import Quantity

_MINUTE = 60
_CRON_FIELDS = {
    "schedule": "schedule",
    "timeZone": "time_zone",
    "concurrencyPolicy": "concurrency_policy",
    "startingDeadline": "starting_deadline",
    "suspend": "suspend",
}
_JOB_FIELDS = {"every": "every", "first": "first"}
_SHAPES = ("steady", "daily", "weekly", "spiky", "trend", "phases", "leak", "trace")


@rule(DailyShape, "low", "high", message="high must not be below low")
def daily_has_a_range(shape: DailyShape) -> Iterator[ValidationProblem]:
    """A wave goes from low to high."""
    yield from _check_range(shape.low, shape.high)


@rule(WeeklyShape, "low", "high", message="high must not be below low")
def weekly_has_a_range(shape: WeeklyShape) -> Iterator[ValidationProblem]:
    """As a daily wave."""
    yield from _check_range(shape.low, shape.high)


@rule(WeeklyShape, "beginHour", "endHour", message="endHour must be after beginHour")
def working_hours_are_not_empty(shape: WeeklyShape) -> Iterator[ValidationProblem]:
    """Nights are what is left over."""
    begin = 8.0 if shape.begin_hour is None else shape.begin_hour
    end = 18.0 if shape.end_hour is None else shape.end_hour
    if begin >= end:
        yield ValidationProblem(("endHour",), INVALID, f"must be after beginHour, which is {begin:g}", end)


@rule(SpikyShape, "length", message="length of a burst must be longer than 0s")
def bursts_last(shape: SpikyShape) -> Iterator[ValidationProblem]:
    """A burst of no time adds nothing."""
    yield from require_nonzero("length", shape.length)


@rule(UsagePhase, "length", message="length of a phase must be longer than 0s")
def phases_last(phase: UsagePhase) -> Iterator[ValidationProblem]:
    """Phases of no time would never come to an end."""
    yield from require_nonzero("length", phase.length)


@rule(ResourceUsage, *_SHAPES, message="at least one shape of usage must be given")
def usage_has_a_shape(usage: ResourceUsage) -> Iterator[ValidationProblem]:
    """Noise on nothing is nothing."""
    if all(getattr(usage, name) is None for name in _SHAPES):
        yield ValidationProblem((), REQUIRED, f"at least one of {', '.join(_SHAPES)} must be given")


@rule(ContainerUsage, "cpu", message="leak is allowed only for memory")
def only_memory_leaks(usage: ContainerUsage) -> Iterator[ValidationProblem]:
    """CPU that grows is a trend."""
    if usage.cpu is not None and usage.cpu.leak is not None:
        yield ValidationProblem(("cpu", "leak"), FORBIDDEN, "is allowed only for memory; for CPU that grows, use trend")


@rule(ContainerUsage, "shared", "base", message="base is allowed only with shared: true")
def base_requires_shared(usage: ContainerUsage) -> Iterator[ValidationProblem]:
    """Without a load that is shared, all usage is each pod's own."""
    if usage.base is not None and not usage.shared:
        yield ValidationProblem(
            ("base",), FORBIDDEN, "is allowed only with shared: true; without it, add the amount to steady"
        )


@rule(ScenarioContainer, "requests", "limits", message="a request must not be above its limit")
def requests_are_within_limits(container: ScenarioContainer) -> Iterator[ValidationProblem]:
    """The API server refuses such a pod."""
    for resource, limit in (container.limits or {}).items():
        request = (container.requests or {}).get(resource)
        if request is not None and Quantity.parse(request) > Quantity.parse(limit):
            yield ValidationProblem(("requests", resource), INVALID, f"must not be above its limit, {limit}", request)


@rule(Rollouts, "at", "every", message="rollouts must have at or every")
def rollouts_have_times(rollouts: Rollouts) -> Iterator[ValidationProblem]:
    """Something must say when."""
    if not rollouts.at and rollouts.every is None:
        yield ValidationProblem((), REQUIRED, "at or every must be given")
    yield from _check_whole_minutes("every", rollouts.every)


@rule(JobRuns, "every", "length", message="length of a run must not be longer than every")
def runs_do_not_overlap(runs: JobRuns) -> Iterator[ValidationProblem]:
    """One run of a Job at a time; those of a CronJob may overlap."""
    yield from _check_whole_minutes("every", runs.every)
    yield from require_nonzero("length", runs.length)
    if runs.every is not None and runs.length is not None and parse_span(runs.length) > parse_span(runs.every):
        yield ValidationProblem(
            ("length",), INVALID, f"must not be longer than every, which is {runs.every}", runs.length
        )


@rule(JobRuns, "schedule", "timeZone", message="schedule must be a cron expression, and timeZone an IANA name")
def runs_have_a_schedule(runs: JobRuns) -> Iterator[ValidationProblem]:
    """As the API server refuses it."""
    if runs.schedule is None:
        return
    try:
        CronSchedule.parse(runs.schedule, runs.time_zone or "UTC")
    except InvalidSchedule as error:
        at = "timeZone" if error.value == runs.time_zone else "schedule"
        yield ValidationProblem((at,), INVALID, error.rule, error.value)


@rule(ScenarioWorkload, "name", "namespace", message="names of workloads and namespaces must be DNS labels")
def workload_names_are_labels(workload: ScenarioWorkload) -> Iterator[ValidationProblem]:
    """Pods are named after them."""
    for field, name in (("name", workload.name), ("namespace", workload.namespace)):
        wrong = check_dns_label(name) if name else None
        if wrong:
            yield ValidationProblem((field,), INVALID, wrong, name)


@rule(
    ScenarioWorkload,
    "kind",
    "runs",
    "rollouts",
    message="runs are allowed only for a Job or CronJob, rollouts only for other kinds",
)
def jobs_run(workload: ScenarioWorkload) -> Iterator[ValidationProblem]:
    """A Job needs its runs; what serves all the time has none."""
    kind = workload.kind
    runs_to_an_end = kind in ("Job", "CronJob")
    if runs_to_an_end and workload.runs is None:
        yield ValidationProblem(("runs",), REQUIRED, f"must be given for a {kind}")
    if not runs_to_an_end and workload.runs is not None:
        yield ValidationProblem(("runs",), FORBIDDEN, "is allowed only with kind: Job or CronJob")
    if runs_to_an_end and workload.rollouts is not None:
        yield ValidationProblem(("rollouts",), FORBIDDEN, f"is not allowed for a {kind}: each run has new pods")


@rule(ScenarioWorkload, "kind", "runs", message="a Job must have runs.every, a CronJob runs.schedule")
def runs_have_times(workload: ScenarioWorkload) -> Iterator[ValidationProblem]:
    """What says when it runs must be there, and what belongs to the other kind must not."""
    runs, kind = workload.runs, workload.kind
    if runs is None or kind not in ("Job", "CronJob"):
        return
    needed = "every" if kind == "Job" else "schedule"
    if getattr(runs, needed) is None:
        yield ValidationProblem(("runs", needed), REQUIRED, f"must be given for a {kind}")
    other = "CronJob" if kind == "Job" else "Job"
    for name, field in (_CRON_FIELDS if kind == "Job" else _JOB_FIELDS).items():
        if getattr(runs, field) is not None:
            yield ValidationProblem(("runs", name), FORBIDDEN, f"is allowed only with kind: {other}")


@rule(ScenarioWorkload, "kind", "replicas", message="a DaemonSet must not have replicas")
def daemon_sets_have_no_count(workload: ScenarioWorkload) -> Iterator[ValidationProblem]:
    """There is one pod for each node."""
    if workload.kind == "DaemonSet" and workload.replicas is not None:
        yield ValidationProblem(
            ("replicas",),
            FORBIDDEN,
            "is not allowed for a DaemonSet, which has one pod on each node that its podTemplate allows",
        )


@rule(
    ScenarioWorkload,
    "containers",
    "podTemplate",
    message="podTemplate must be valid, and have every container of the workload",
)
def containers_are_in_the_template(workload: ScenarioWorkload) -> Iterator[ValidationProblem]:
    """A typo in a name would leave the real container without usage."""
    if workload.pod_template is None:
        return
    try:
        spec = convert_object(workload.pod_template, PodTemplateSpec).spec
    except UnreadableObject as error:
        yield ValidationProblem(("podTemplate",), INVALID, error.rule, workload.name)
        return
    written = (*spec.containers, *spec.init_containers)
    yield from _check_template(written)
    names = [container.name for container in written]
    for index, container in enumerate(workload.containers or ()):
        if container.name not in names:
            rule_text = f"is not a container of podTemplate; its containers: {', '.join(names)}"
            guess = suggest_name(container.name, names)
            yield ValidationProblem(("containers", index, "name"), INVALID, rule_text, container.name, suggestion=guess)


@rule(FleetMix, "shares", message="at least one share must be above 0")
def mix_has_a_share(fleet: FleetMix) -> Iterator[ValidationProblem]:
    """Weights are relative to their sum."""
    if fleet.shares is not None and not any(getattr(fleet.shares, name) for name in MixShares.__struct_fields__):
        yield ValidationProblem(("shares",), REQUIRED, "at least one share must be above 0")


@rule(FleetMix, "namespaces", message="namespaces must be DNS labels")
def fleet_namespaces_are_labels(fleet: FleetMix) -> Iterator[ValidationProblem]:
    """As everywhere."""
    for index, name in enumerate(fleet.namespaces or ()):
        wrong = check_dns_label(name)
        if wrong:
            yield ValidationProblem(("namespaces", index), INVALID, wrong, name)


def _check_template(containers: Iterable[Container]) -> Iterator[ValidationProblem]:
    """Amounts that no API server would take."""
    for container in containers:
        for part, amounts in (("requests", container.resources.requests), ("limits", container.resources.limits)):
            for resource, text in amounts.items():
                try:
                    Quantity.parse(text)
                except InvalidQuantity as error:
                    rule_text = f"{part} of {resource} of container {container.name}: {error.rule}"
                    yield ValidationProblem(("podTemplate",), INVALID, rule_text, text)


def _check_range(low: str | int | None, high: str | int | None) -> Iterator[ValidationProblem]:
    if low is not None and high is not None and Quantity.parse(low) > Quantity.parse(high):
        yield ValidationProblem(("high",), INVALID, f"must not be below low, which is {low}", high)


def _check_whole_minutes(name: str, span: str | None) -> Iterator[ValidationProblem]:
    if span is not None and parse_span(span) < _MINUTE:
        yield ValidationProblem((name,), INVALID, "must be at least 1m", span)


def require_nonzero(name: str, span: str | None) -> Iterator[ValidationProblem]:
    """A span that must last."""
    if span is not None and parse_span(span) <= 0:
        yield ValidationProblem((name,), INVALID, "must be longer than 0s", span)


WORKLOAD_RULES: tuple[Rule[Any], ...] = (
    daily_has_a_range,
    weekly_has_a_range,
    working_hours_are_not_empty,
    bursts_last,
    phases_last,
    usage_has_a_shape,
    only_memory_leaks,
    base_requires_shared,
    requests_are_within_limits,
    rollouts_have_times,
    runs_do_not_overlap,
    runs_have_a_schedule,
    workload_names_are_labels,
    jobs_run,
    runs_have_times,
    daemon_sets_have_no_count,
    containers_are_in_the_template,
    mix_has_a_share,
    fleet_namespaces_are_labels,
)
