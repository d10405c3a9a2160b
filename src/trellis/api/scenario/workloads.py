"""Workloads of a Scenario: those written out one by one, and those drawn from a mix."""

from __future__ import annotations

from typing import Annotated, Any

from trellis.api.kinds.parts import ApiStruct
from trellis.api.scenario.usage import ContainerUsage
from trellis.api.schema.fields import AmountText, Field, SpanText

WORKLOAD_KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")
CONCURRENCY_POLICIES = ("Allow", "Forbid", "Replace")
MAX_WORKLOADS = 20_000

_NAME = {"required": True, "min_length": 1, "max_length": 63}
_RESTARTS = ("NotRequired", "RestartContainer")
_WEIGHT = {"minimum": 0, "maximum": 10_000}


class ContainerResizePolicy(ApiStruct, frozen=True):
    """Whether a resize restarts the container."""

    cpu: Annotated[str | None, Field("Restart policy for a resize of CPU. Absent: `NotRequired`.", enum=_RESTARTS)] = (
        None
    )
    memory: Annotated[
        str | None, Field("Restart policy for a resize of memory. Absent: `NotRequired`.", enum=_RESTARTS)
    ] = None


class ScenarioContainer(ApiStruct, frozen=True):
    """One container: its resources as in a manifest, and its usage."""

    name: Annotated[str, Field("The name.", **_NAME)] = ""
    requests: Annotated[dict[str, AmountText] | None, Field("As in a pod.", max_properties=16)] = None
    limits: Annotated[dict[str, AmountText] | None, Field("As in a pod.", max_properties=16)] = None
    resize_policy: Annotated[ContainerResizePolicy | None, Field("Whether a resize restarts the container.")] = None
    usage: Annotated[ContainerUsage | None, Field("Usage of the container. Absent: none.")] = None


class ScenarioPodSpec(ApiStruct, frozen=True):
    """The pod's spec, kept as written."""

    containers: Annotated[
        list[dict[str, Any]] | None, Field("The containers.", required=True, min_items=1, max_items=64)
    ] = None
    init_containers: Annotated[
        list[dict[str, Any]] | None, Field("Init containers and native sidecars.", max_items=64)
    ] = None


class ScenarioPodTemplate(ApiStruct, frozen=True):
    """A pod template as a Deployment has it, kept as written."""

    spec: Annotated[
        dict[str, Any] | None, Field("The pod's spec.", required=True, like=ScenarioPodSpec, opaque=True)
    ] = None


class Startup(ApiStruct, frozen=True):
    """How long a pod takes to start: a fixed `time`, and `work` that more CPU finishes sooner."""

    time: Annotated[SpanText | None, Field("Part of the start that does not depend on CPU. Absent: `5s`.")] = None
    work: Annotated[
        float | None, Field("CPU time that the start needs, in core-seconds. Absent: 0.", minimum=0, maximum=1_000_000)
    ] = None
    cores: Annotated[AmountText | None, Field("Maximum CPU that the start can use at a time. Absent: 1.")] = None
    probe: Annotated[
        bool | None,
        Field(
            "Whether the pod has a readiness probe, which succeeds at the end of the start. Without one "
            "a pod is Ready as soon as it runs. Absent: true; with `podTemplate`, whether the template "
            "has a probe."
        ),
    ] = None


class Rollouts(ApiStruct, frozen=True):
    """When new versions are rolled out, and how their usage differs."""

    at: Annotated[
        list[SpanText] | None, Field("Times of rollouts, from the start of the scenario.", max_items=1000)
    ] = None
    every: Annotated[SpanText | None, Field("Interval of further rollouts, in addition to `at`.")] = None
    factors: Annotated[
        list[Annotated[float, Field(minimum=0, maximum=1000)]] | None,
        Field(
            "Factors that usage is multiplied by after each rollout, relative to the first version. The "
            "last factor also applies to all later rollouts. Absent: drawn at random if `shift` is given.",
            max_items=1000,
        ),
    ] = None
    shift: Annotated[
        float | None,
        Field("Random difference between versions, as a fraction. Absent: 0.", minimum=0, maximum=2),
    ] = None


class JobRuns(ApiStruct, frozen=True):
    """When a Job runs, or a CronJob creates Jobs."""

    every: Annotated[
        SpanText | None,
        Field("Time from the start of one run to that of the next. Required for a Job, not allowed for a CronJob."),
    ] = None
    schedule: Annotated[
        str | None,
        Field(
            "As in a CronJob: minute, hour, day of month, month, day of week. Required for a CronJob, "
            "not allowed for a Job.",
            max_length=256,
        ),
    ] = None
    time_zone: Annotated[
        str | None, Field("Time zone of `schedule`, such as `Europe/Berlin`. Absent: `UTC`.", max_length=64)
    ] = None
    concurrency_policy: Annotated[
        str | None,
        Field(
            "As in a CronJob: what happens if an earlier Job still runs at a scheduled time. Absent: `Allow`.",
            enum=CONCURRENCY_POLICIES,
        ),
    ] = None
    starting_deadline: Annotated[
        SpanText | None,
        Field(
            "With `concurrencyPolicy: Forbid`: how long after its scheduled time a "
            "Job may still start. Absent: without limit."
        ),
    ] = None
    suspend: Annotated[bool | None, Field("As in a CronJob: whether it creates no Jobs. Absent: false.")] = None
    length: Annotated[SpanText | None, Field("Duration of each pod of a run.", required=True)] = None
    completions: Annotated[
        int | None,
        Field(
            "Number of pods of a run that must succeed; `replicas` of them run at a time. Absent: `replicas`.",
            minimum=1,
            maximum=10_000,
        ),
    ] = None
    first: Annotated[
        SpanText | None, Field("Start of a Job's first run, from the start of the scenario. Absent: `0s`.")
    ] = None
    jitter: Annotated[
        float | None,
        Field("Random difference between the durations of runs, as a fraction. Absent: 0.", minimum=0, maximum=1),
    ] = None


class DisruptionBudget(ApiStruct, frozen=True):
    """A PodDisruptionBudget over the workload's pods."""

    max_unavailable: Annotated[
        int | None, Field("As in a PodDisruptionBudget.", required=True, minimum=0, maximum=1000)
    ] = None


class ScenarioWorkload(ApiStruct, frozen=True):
    """A workload: a controller with its pods."""

    name: Annotated[str, Field("The name.", **_NAME)] = ""
    namespace: Annotated[str | None, Field("The namespace. Absent: `default`.", max_length=63)] = None
    kind: Annotated[str | None, Field("Kind of the workload. Absent: `Deployment`.", enum=WORKLOAD_KINDS)] = None
    replicas: Annotated[
        int | None,
        Field(
            "Number of pods; for a Job or CronJob, how many pods of a run run at a time. Not allowed for "
            "a DaemonSet, which has one pod per node. Absent: 1.",
            minimum=0,
            maximum=10_000,
        ),
    ] = None
    containers: Annotated[
        list[ScenarioContainer] | None,
        Field(
            "The containers. With `podTemplate`: values given here replace those of the template's "
            "container of that name.",
            required=True,
            min_items=1,
            max_items=32,
            list_type="map",
            list_keys=("name",),
        ),
    ] = None
    pod_template: Annotated[
        dict[str, Any] | None,
        Field(
            "A complete pod template, e.g. for tolerations, affinity and sidecars.",
            like=ScenarioPodTemplate,
            opaque=True,
        ),
    ] = None
    startup: Annotated[Startup | None, Field("How long a pod takes to start.")] = None
    rollouts: Annotated[Rollouts | None, Field("When new versions are rolled out. Absent: never.")] = None
    runs: Annotated[
        JobRuns | None, Field("When a Job or CronJob runs. Required for these kinds, not allowed for others.")
    ] = None
    disruption_budget: Annotated[
        DisruptionBudget | None, Field("PodDisruptionBudget for the workload's pods. Absent: none.")
    ] = None
    only_in: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]] | None,
        Field("Names of the variants in which the workload has pods. Absent: all variants.", min_items=1, max_items=64),
    ] = None
    label: Annotated[
        str | None,
        Field(
            "Type of the workload in reports. Absent: derived from its usage, e.g. `daily` or `batch`.", max_length=63
        ),
    ] = None


class DrawnSize(ApiStruct, frozen=True):
    """A log-normal distribution of an amount."""

    median: Annotated[AmountText | None, Field("The median.", required=True)] = None
    spread: Annotated[
        float | None,
        Field("Standard deviation of the logarithm. Absent: 1 for CPU, 0.8 for memory.", minimum=0, maximum=3),
    ] = None


class DrawnFactor(ApiStruct, frozen=True):
    """A log-normal distribution of a factor."""

    median: Annotated[float | None, Field("The median.", required=True, minimum=0, maximum=1000)] = None
    spread: Annotated[
        float | None,
        Field("Standard deviation of the logarithm. Absent: that of the field's default.", minimum=0, maximum=3),
    ] = None


class OverRequests(ApiStruct, frozen=True):
    """Requests as a multiple of the usage in busy hours."""

    cpu: Annotated[DrawnFactor | None, Field("Factor for CPU. Absent: a median of 2.2 and a spread of 0.5.")] = None
    memory: Annotated[DrawnFactor | None, Field("Factor for memory. Absent: a median of 1.6 and a spread of 0.45.")] = (
        None
    )


class MixShares(ApiStruct, frozen=True):
    """Weights of the types of workloads. Types that are left out do not occur."""

    steady: Annotated[int | None, Field("Constant usage.", **_WEIGHT)] = None
    daily: Annotated[int | None, Field("A daily wave.", **_WEIGHT)] = None
    weekly: Annotated[int | None, Field("High usage in working hours.", **_WEIGHT)] = None
    spiky: Annotated[int | None, Field("Bursts at random times.", **_WEIGHT)] = None
    trend: Annotated[int | None, Field("Usage that grows or shrinks over the scenario.", **_WEIGHT)] = None
    leak: Annotated[int | None, Field("Memory that grows until the container restarts.", **_WEIGHT)] = None
    batch: Annotated[int | None, Field("A Job with phases that runs several times a day.", **_WEIGHT)] = None
    deploys: Annotated[int | None, Field("A new version every few days, each with different usage.", **_WEIGHT)] = None
    slow_start: Annotated[int | None, Field("A start that needs much CPU.", **_WEIGHT)] = None


class FleetMix(ApiStruct, frozen=True):
    """Workloads drawn at random, with sizes and requests distributed as in a real cluster."""

    count: Annotated[int | None, Field("Number of workloads.", required=True, minimum=1, maximum=MAX_WORKLOADS)] = None
    namespaces: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]] | None,
        Field(
            "Namespaces over which the workloads are distributed in turn. Absent: `default`.",
            min_items=1,
            max_items=1000,
        ),
    ] = None
    shares: Annotated[
        MixShares | None, Field("Weights of the types of workloads. Absent: a mix of all, mostly daily and steady.")
    ] = None
    cpu: Annotated[
        DrawnSize | None, Field("Average CPU usage of a container. Absent: a median of 150m and a spread of 1.")
    ] = None
    memory: Annotated[
        DrawnSize | None,
        Field("Average memory usage of a container. Absent: a median of 300Mi and a spread of 0.8."),
    ] = None
    replicas: Annotated[
        DrawnFactor | None, Field("Replicas of a workload. Absent: a median of 2.5 and a spread of 0.6.")
    ] = None
    most_replicas: Annotated[
        int | None, Field("Maximum number of replicas of a workload. Absent: 12.", minimum=1, maximum=1000)
    ] = None
    over_requests: Annotated[OverRequests | None, Field("Requests as a multiple of the usage in busy hours.")] = None
    limited: Annotated[
        float | None,
        Field(
            "Share of the containers that have limits, from 0 to 1: twice the CPU request and 1.5 times "
            "the memory request. Absent: 0.5.",
            minimum=0,
            maximum=1,
        ),
    ] = None
