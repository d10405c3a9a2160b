"""Scenario, `sim.trellis.x-k8s.io/v1alpha1`: the object, with its policies, variants, faults and prices.

A file format; no API server serves the kind. It is declared like the kinds that are served, so that the same code
reads, validates and documents it.
"""

from __future__ import annotations

from typing import Annotated, Any

from trellis.api.kinds.parts import ApiStruct
from trellis.api.kinds.vpa import PodResourcePolicy, PodUpdatePolicy, RecommenderSelector, StartupBoost
from trellis.api.kube.meta import ObjectMeta
from trellis.api.scenario.autoscalers import PolicyHpaSpec, PolicyHvpaSpec
from trellis.api.scenario.nodes import ScenarioNodeGroup, ScenarioNodes
from trellis.api.scenario.workloads import MAX_WORKLOADS, FleetMix, ScenarioWorkload
from trellis.api.schema.fields import Field, Opaque, SpanText, TimeText

FAULT_KINDS = (
    "node-down",
    "refuse-resizes",
    "refuse-downsizes",
    "defer-resizes",
    "slow-starts",
    "metrics-gap",
    "recommender-down",
    "updater-down",
    "admission-down",
    "vpa-deleted",
)
MAX_SEED = 2**53

_NAME = {"required": True, "min_length": 1, "max_length": 63}
_PATTERN = Field(min_length=1, max_length=253)
_TEXTS = Field(max_length=256)


class ScenarioIntervals(ApiStruct, frozen=True):
    """How often each controller runs."""

    recommender: Annotated[SpanText | None, Field("Time between two recommender passes. Absent: `1m`.")] = None
    updater: Annotated[SpanText | None, Field("Time between two updater passes. Absent: `1m`.")] = None
    hpa: Annotated[SpanText | None, Field("Time between two reconciliations of all HPAs. Absent: `15s`.")] = None
    hvpa: Annotated[
        SpanText | None,
        Field("Time between two reconciliations of all Hvpas; a changed Hvpa is reconciled at once. Absent: `1m`."),
    ] = None
    nodes: Annotated[
        SpanText | None,
        Field("Time between two passes of the node autoscaler; pending pods trigger one at once. Absent: `10s`."),
    ] = None


class PolicySpec(ApiStruct, frozen=True):
    """A VerticalPodAutoscaler spec without its target. Stored as written."""

    update_policy: Annotated[PodUpdatePolicy | None, Field("As in a VPA.")] = None
    resource_policy: Annotated[PodResourcePolicy | None, Field("As in a VPA.")] = None
    recommenders: Annotated[list[RecommenderSelector] | None, Field("As in a VPA.", max_items=1)] = None
    startup_boost: Annotated[StartupBoost | None, Field("As in a VPA.")] = None
    target_ref: Annotated[Opaque | None, Field("Not allowed: the target is each matching workload.")] = None


class PolicyForEach(ApiStruct, frozen=True):
    """A VPA, an HPA or an Hvpa for each workload whose name matches."""

    workloads: Annotated[
        list[Annotated[str, _PATTERN]] | None,
        Field(
            "Names of workloads, as `name` or `namespace/name`; `*` matches any text. A workload gets "
            "one VPA, one HPA and one Hvpa at most: from the first entry of that kind that matches. "
            "Absent: all workloads; for HPAs and Hvpas, all but Jobs.",
            min_items=1,
            max_items=1000,
        ),
    ] = None
    spec: Annotated[
        dict[str, Any] | None,
        Field(
            "Spec of the VPA, without a target. Absent: all defaults, unless `hpa` or `hvpa` is given.",
            like=PolicySpec,
            opaque=True,
        ),
    ] = None
    hpa: Annotated[
        dict[str, Any] | None,
        Field("Makes an HPA instead of a VPA: its spec, without a target.", like=PolicyHpaSpec),
    ] = None
    hvpa: Annotated[
        dict[str, Any] | None,
        Field("Makes an Hvpa instead of a VPA: its spec, without a target.", like=PolicyHvpaSpec),
    ] = None


class ScenarioPolicy(ApiStruct, frozen=True):
    """A named set of manifests."""

    name: Annotated[str, Field("Name of the policy, which variants refer to.", **_NAME)] = ""
    for_each: Annotated[
        list[PolicyForEach] | None, Field("Autoscalers that are made for each matching workload.", max_items=1000)
    ] = None
    objects: Annotated[
        list[dict[str, Any]] | None,
        Field(
            "Complete manifests: VerticalPodAutoscalers, HorizontalPodAutoscalers, Hvpas, LimitRanges; "
            "and, with `nodeGroups`, Buffers.",
            max_items=MAX_WORKLOADS,
        ),
    ] = None
    files: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1024)]] | None,
        Field("Files of manifests; paths are relative to the scenario file.", max_items=1000),
    ] = None


class ScenarioVariant(ApiStruct, frozen=True):
    """One way to size the fleet."""

    name: Annotated[str, Field("Name of the variant.", **_NAME)] = ""
    title: Annotated[str | None, Field("Name of the variant in reports. Absent: `name`.", max_length=128)] = None
    policies: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]] | None,
        Field("Names of the policies that apply. Absent: none, so requests do not change.", max_items=100),
    ] = None
    recommender: Annotated[
        str | None,
        Field("Recommender of the VPAs that do not name one. Absent: `default`.", min_length=1, max_length=253),
    ] = None
    parameters: Annotated[
        dict[str, Annotated[str, _TEXTS]] | None,
        Field("Parameters of that recommender, as `--set` takes them.", max_properties=64),
    ] = None
    settings: Annotated[
        dict[str, Annotated[str, _TEXTS]] | None,
        Field(
            "Settings of the components, by flag name without dashes in front, e.g. `min-replicas`.", max_properties=256
        ),
    ] = None


class ScenarioFault(ApiStruct, frozen=True):
    """A fault that lasts for a time."""

    kind: Annotated[
        str,
        Field(
            "`node-down`: nodes are off, and their pods are evicted after five minutes. "
            "`refuse-resizes`: kubelets answer every resize with Infeasible. `refuse-downsizes`: the "
            "same for resizes that lower a resource. `defer-resizes`: kubelets answer every resize with "
            "Deferred. `slow-starts`: pods take ten times as long to start. `metrics-gap`: usage is not "
            "measured. `recommender-down`, `updater-down`, `admission-down`: that component does not "
            "run. `vpa-deleted`: the VPA of a workload is deleted, and created again at the end of the "
            "fault.",
            required=True,
            enum=FAULT_KINDS,
        ),
    ] = ""
    begin: Annotated[SpanText | None, Field("Start of the fault, from the start of the scenario.", required=True)] = (
        None
    )
    length: Annotated[SpanText | None, Field("Duration of the fault.", required=True)] = None
    about: Annotated[
        str | None,
        Field("Names of the nodes or workloads affected; `*` matches any text. Absent: all.", max_length=253),
    ] = None


class ScenarioPrices(ApiStruct, frozen=True):
    """Prices of requests."""

    name: Annotated[
        str | None, Field("Name of the prices in reports. Absent: the scenario's name.", max_length=128)
    ] = None
    currency: Annotated[str | None, Field("Currency of the prices. Absent: `USD`.", min_length=1, max_length=8)] = None
    core_hour: Annotated[
        float | None, Field("Price of one core per hour.", required=True, minimum=0, maximum=1_000_000)
    ] = None
    gib_hour: Annotated[
        float | None, Field("Price of one GiB of memory per hour.", required=True, minimum=0, maximum=1_000_000)
    ] = None


class ScenarioSpec(ApiStruct, frozen=True):
    """The fleet, the simulated time and the variants."""

    seed: Annotated[
        int | None,
        Field(
            "Seed of all random numbers: the same seed gives the same result. Absent: 1.", minimum=0, maximum=MAX_SEED
        ),
    ] = None
    start: Annotated[TimeText | None, Field("Start of the simulated time. Absent: Monday, 2026-06-01T00:00:00Z.")] = (
        None
    )
    duration: Annotated[SpanText | None, Field("Length of the simulated time, e.g. `14d`.", required=True)] = None
    step: Annotated[SpanText | None, Field("Time between two values of usage. Absent: `1m`.")] = None
    warm_up: Annotated[SpanText | None, Field("Time at the start that is simulated but not scored. Absent: `0s`.")] = (
        None
    )
    intervals: Annotated[
        ScenarioIntervals | None, Field("How often each controller runs. Absent: the controllers' defaults.")
    ] = None
    nodes: Annotated[
        list[ScenarioNodes] | None,
        Field(
            "Nodes that exist for the whole time. Absent: none if there are `nodeGroups`, otherwise "
            "enough nodes with 8 CPU and 32Gi.",
            min_items=1,
            max_items=1000,
            list_type="map",
            list_keys=("name",),
        ),
    ] = None
    node_groups: Annotated[
        list[ScenarioNodeGroup] | None,
        Field(
            "Node groups that the node autoscaler scales. Absent: none.",
            min_items=1,
            max_items=100,
            list_type="map",
            list_keys=("name",),
        ),
    ] = None
    workloads: Annotated[
        list[ScenarioWorkload] | None, Field("The workloads, one by one.", max_items=MAX_WORKLOADS)
    ] = None
    fleet: Annotated[FleetMix | None, Field("Workloads drawn at random from a mix, in addition to `workloads`.")] = None
    policies: Annotated[
        list[ScenarioPolicy] | None,
        Field(
            "Named sets of manifests, which variants refer to.", max_items=1000, list_type="map", list_keys=("name",)
        ),
    ] = None
    variants: Annotated[
        list[ScenarioVariant] | None,
        Field(
            "The variants to compare; the first is the baseline. Absent: `fixed`, without autoscalers, "
            "and one variant per policy.",
            min_items=1,
            max_items=64,
            list_type="map",
            list_keys=("name",),
        ),
    ] = None
    faults: Annotated[list[ScenarioFault] | None, Field("Faults to simulate.", max_items=1000)] = None
    prices: Annotated[ScenarioPrices | None, Field("Prices of requests. Absent: the built-in example prices.")] = None


class Scenario(ApiStruct, frozen=True):
    """A fleet of workloads on nodes, with variants of how it is sized."""

    api_version: str = "sim.trellis.x-k8s.io/v1alpha1"
    kind: str = "Scenario"
    metadata: ObjectMeta = ObjectMeta()
    spec: ScenarioSpec = ScenarioSpec()
