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

    cpu: Annotated[str | None, Field("For CPU. Absent: `NotRequired`.", enum=_RESTARTS)] = None
    memory: Annotated[str | None, Field("For memory. Absent: `NotRequired`.", enum=_RESTARTS)] = None


class ScenarioContainer(ApiStruct, frozen=True):
    """One container: what people wrote into its manifest, and what it uses."""

    name: Annotated[str, Field("Its name.", **_NAME)] = ""
    requests: Annotated[dict[str, AmountText] | None, Field("As in a manifest.", max_properties=16)] = None
    limits: Annotated[dict[str, AmountText] | None, Field("As in a manifest.", max_properties=16)] = None
    resize_policy: Annotated[ContainerResizePolicy | None, Field("Whether a resize restarts it.")] = None
    usage: Annotated[ContainerUsage | None, Field("What it uses. Absent: nothing.")] = None


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
    """How a pod comes up: `time` that nothing shortens, and `work` that more CPU shortens."""

    time: Annotated[SpanText | None, Field("Time that nothing shortens. Absent: `5s`.")] = None
    work: Annotated[
        float | None, Field("CPU that the start takes, in core-seconds. Absent: 0.", minimum=0, maximum=1_000_000)
    ] = None
    cores: Annotated[AmountText | None, Field("The most cores that the start can use at a time. Absent: 1.")] = None
    probe: Annotated[
        bool | None,
        Field(
            "Whether a readiness probe tells when the start is over. Without one a pod is Ready as soon as it runs. "
            "Absent: true."
        ),
    ] = None


class Rollouts(ApiStruct, frozen=True):
    """When new versions are rolled out, and by what their usage differs."""

    at: Annotated[list[SpanText] | None, Field("When, counted from the beginning.", max_items=1000)] = None
    every: Annotated[SpanText | None, Field("So often, beside `at`.")] = None
    factors: Annotated[
        list[Annotated[float, Field(minimum=0, maximum=1000)]] | None,
        Field(
            "What usage is multiplied with from each rollout on, compared with the first version. The last one holds "
            "for all that follow. Absent: drawn, if there is a `shift`.",
            max_items=1000,
        ),
    ] = None
    shift: Annotated[
        float | None,
        Field(
            "How far drawn versions differ from one another, as a fraction. Absent: they do not.", minimum=0, maximum=2
        ),
    ] = None


class JobRuns(ApiStruct, frozen=True):
    """When a Job runs, or for which times a CronJob makes Jobs."""

    every: Annotated[
        SpanText | None, Field("From the begin of one run to that of the next; needed for a Job, and only there.")
    ] = None
    schedule: Annotated[
        str | None,
        Field(
            "As in a CronJob: minute, hour, day of month, month, day of week. Needed for a CronJob, and only there.",
            max_length=256,
        ),
    ] = None
    time_zone: Annotated[
        str | None, Field("The time zone of the `schedule`, such as `Europe/Berlin`. Absent: UTC.", max_length=64)
    ] = None
    concurrency_policy: Annotated[
        str | None,
        Field(
            "What a CronJob does at a time of its schedule when an earlier Job still runs, as in a CronJob. Absent: "
            "`Allow`.",
            enum=CONCURRENCY_POLICIES,
        ),
    ] = None
    starting_deadline: Annotated[
        SpanText | None, Field("How late a Job of a CronJob may begin, after one that forbade it. Absent: any time.")
    ] = None
    suspend: Annotated[bool | None, Field("Whether a CronJob makes no Jobs. Absent: false.")] = None
    length: Annotated[SpanText | None, Field("How long each pod of a run takes.", required=True)] = None
    completions: Annotated[
        int | None,
        Field(
            "How many pods of a run have to end well, `replicas` of them at a time. Absent: as many as `replicas`.",
            minimum=1,
            maximum=10_000,
        ),
    ] = None
    first: Annotated[SpanText | None, Field("When the first run of a Job begins. Absent: `0s`.")] = None
    jitter: Annotated[
        float | None,
        Field("How far the lengths of runs differ, as a fraction. Absent: 0.", minimum=0, maximum=1),
    ] = None


class DisruptionBudget(ApiStruct, frozen=True):
    """A PodDisruptionBudget over the workload's pods."""

    max_unavailable: Annotated[
        int | None, Field("As in a PodDisruptionBudget.", required=True, minimum=0, maximum=1000)
    ] = None


class ScenarioWorkload(ApiStruct, frozen=True):
    """A controller with its pods."""

    name: Annotated[str, Field("Its name.", **_NAME)] = ""
    namespace: Annotated[str | None, Field("Its namespace. Absent: `default`.", max_length=63)] = None
    kind: Annotated[str | None, Field("What makes the pods. Absent: `Deployment`.", enum=WORKLOAD_KINDS)] = None
    replicas: Annotated[
        int | None,
        Field(
            "How many pods; for a Job or CronJob those of one run that run at a time. Absent: 1. A DaemonSet has one "
            "for each node.",
            minimum=0,
            maximum=10_000,
        ),
    ] = None
    containers: Annotated[
        list[ScenarioContainer] | None,
        Field(
            "The containers. With `podTemplate`: what is said here of a container of the template goes above what "
            "stands there.",
            required=True,
            min_items=1,
            max_items=32,
            list_type="map",
            list_keys=("name",),
        ),
    ] = None
    pod_template: Annotated[
        dict[str, Any] | None,
        Field("A whole pod template, for tolerations, affinities, sidecars.", like=ScenarioPodTemplate, opaque=True),
    ] = None
    startup: Annotated[Startup | None, Field("How a pod comes up.")] = None
    rollouts: Annotated[Rollouts | None, Field("When new versions are rolled out. Absent: never.")] = None
    runs: Annotated[JobRuns | None, Field("When a Job or CronJob runs; needed for one, and for nothing else.")] = None
    disruption_budget: Annotated[DisruptionBudget | None, Field("Absent: none.")] = None
    only_in: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]] | None,
        Field("The variants in which it is there; in others it has no pods. Absent: all.", min_items=1, max_items=64),
    ] = None
    label: Annotated[
        str | None, Field("What sort of workload it is, for reports. Absent: after its usage.", max_length=63)
    ] = None


class DrawnSize(ApiStruct, frozen=True):
    """A log-normal draw of an amount: half of all lie below the median."""

    median: Annotated[AmountText | None, Field("Half of all use less.", required=True)] = None
    spread: Annotated[
        float | None,
        Field("Standard deviation of the logarithm. Absent: 1 for CPU, 0.8 for memory.", minimum=0, maximum=3),
    ] = None


class DrawnFactor(ApiStruct, frozen=True):
    """A log-normal draw of a factor."""

    median: Annotated[float | None, Field("Half of all are below it.", required=True, minimum=0, maximum=1000)] = None
    spread: Annotated[
        float | None, Field("Standard deviation of the logarithm. Absent: that of the default.", minimum=0, maximum=3)
    ] = None


class OverRequests(ApiStruct, frozen=True):
    """How many times what they use in busy hours people request."""

    cpu: Annotated[DrawnFactor | None, Field("For CPU. Absent: a median of 2.2 and a spread of 0.5.")] = None
    memory: Annotated[DrawnFactor | None, Field("For memory. Absent: a median of 1.6 and a spread of 0.45.")] = None


class MixShares(ApiStruct, frozen=True):
    """How many of each sort there are, as weights. Sorts that are left out do not occur."""

    steady: Annotated[int | None, Field("Always about the same.", **_WEIGHT)] = None
    daily: Annotated[int | None, Field("A wave with the day.", **_WEIGHT)] = None
    weekly: Annotated[int | None, Field("Working hours.", **_WEIGHT)] = None
    spiky: Annotated[int | None, Field("Bursts.", **_WEIGHT)] = None
    trend: Annotated[int | None, Field("Grows or shrinks over the whole time.", **_WEIGHT)] = None
    leak: Annotated[int | None, Field("Loses memory until it is started anew.", **_WEIGHT)] = None
    batch: Annotated[int | None, Field("A Job with phases that runs some times a day.", **_WEIGHT)] = None
    deploys: Annotated[int | None, Field("New versions every few days, each of another size.", **_WEIGHT)] = None
    slow_start: Annotated[int | None, Field("Takes much CPU to start.", **_WEIGHT)] = None


class FleetMix(ApiStruct, frozen=True):
    """Workloads drawn from the seed: sizes that spread as in a real cluster, and requests as people write them."""

    count: Annotated[int | None, Field("How many workloads.", required=True, minimum=1, maximum=MAX_WORKLOADS)] = None
    namespaces: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]] | None,
        Field("Where they are, in turn. Absent: `default`.", min_items=1, max_items=1000),
    ] = None
    shares: Annotated[
        MixShares | None, Field("How many of each sort there are. Absent: a mix of all, mostly daily and steady.")
    ] = None
    cpu: Annotated[
        DrawnSize | None, Field("Cores that a container uses on average. Absent: a median of 150m and a spread of 1.")
    ] = None
    memory: Annotated[
        DrawnSize | None,
        Field("Bytes that a container uses on average. Absent: a median of 300Mi and a spread of 0.8."),
    ] = None
    replicas: Annotated[
        DrawnFactor | None, Field("Pods of a workload. Absent: a median of 2.5 and a spread of 0.6.")
    ] = None
    most_replicas: Annotated[int | None, Field("Never more pods than this. Absent: 12.", minimum=1, maximum=1000)] = (
        None
    )
    over_requests: Annotated[OverRequests | None, Field("How far requests lie above usage.")] = None
    limited: Annotated[
        float | None,
        Field(
            "Which share of the containers has limits: twice the CPU, 1.5 times the memory. Absent: 0.5.",
            minimum=0,
            maximum=1,
        ),
    ] = None
