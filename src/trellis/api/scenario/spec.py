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
    """How often is decided."""

    recommender: Annotated[SpanText | None, Field("From one recommendation to the next. Absent: `1m`.")] = None
    updater: Annotated[SpanText | None, Field("From one pass of the updater to the next. Absent: `1m`.")] = None
    hpa: Annotated[SpanText | None, Field("From one look at all HPAs to the next. Absent: `15s`.")] = None
    hvpa: Annotated[
        SpanText | None,
        Field("From one look at all Hvpas to the next; changes are acted on at once. Absent: `1m`."),
    ] = None
    nodes: Annotated[
        SpanText | None,
        Field("From one plan for nodes to the next; pods that wait are acted on at once. Absent: `10s`."),
    ] = None


class PolicySpec(ApiStruct, frozen=True):
    """A VerticalPodAutoscaler spec without its target. Stored as written."""

    update_policy: Annotated[PodUpdatePolicy | None, Field("As in a VPA.")] = None
    resource_policy: Annotated[PodResourcePolicy | None, Field("As in a VPA.")] = None
    recommenders: Annotated[list[RecommenderSelector] | None, Field("As in a VPA.", max_items=1)] = None
    startup_boost: Annotated[StartupBoost | None, Field("As in a VPA.")] = None
    target_ref: Annotated[Opaque | None, Field("Refused: the target is each workload in turn.")] = None


class PolicyForEach(ApiStruct, frozen=True):
    """A VPA, an HPA or an Hvpa for each workload whose name matches."""

    workloads: Annotated[
        list[Annotated[str, _PATTERN]] | None,
        Field(
            "Names, also of the form `namespace/name`; `*` stands for any text. Of each of the three kinds a workload "
            "gets the first template that matches it. Absent: all; for HPAs and Hvpas, all but Jobs.",
            min_items=1,
            max_items=1000,
        ),
    ] = None
    spec: Annotated[
        dict[str, Any] | None,
        Field(
            "The VPA's spec without a target. Absent: all defaults, unless another is given.",
            like=PolicySpec,
            opaque=True,
        ),
    ] = None
    hpa: Annotated[
        dict[str, Any] | None,
        Field("An HPA instead of a VPA: its spec without a target.", like=PolicyHpaSpec),
    ] = None
    hvpa: Annotated[
        dict[str, Any] | None,
        Field("An Hvpa instead of a VPA: its spec without a target.", like=PolicyHvpaSpec),
    ] = None


class ScenarioPolicy(ApiStruct, frozen=True):
    """A set of manifests under a name."""

    name: Annotated[str, Field("How variants call it.", **_NAME)] = ""
    for_each: Annotated[list[PolicyForEach] | None, Field("Autoscalers made for the workloads.", max_items=1000)] = None
    objects: Annotated[
        list[dict[str, Any]] | None,
        Field(
            "Whole manifests: VerticalPodAutoscalers, HorizontalPodAutoscalers, Hvpas, LimitRanges; and Buffers, "
            "where there are `nodeGroups`.",
            max_items=MAX_WORKLOADS,
        ),
    ] = None
    files: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1024)]] | None,
        Field("Files of manifests, relative to the scenario's own.", max_items=1000),
    ] = None


class ScenarioVariant(ApiStruct, frozen=True):
    """One way to size the same fleet."""

    name: Annotated[str, Field("Its name, in one word.", **_NAME)] = ""
    title: Annotated[str | None, Field("What reports call it. Absent: its name.", max_length=128)] = None
    policies: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]] | None,
        Field("The sets of manifests that are in force. Absent: none, requests stay as written.", max_items=100),
    ] = None
    recommender: Annotated[
        str | None,
        Field("The recommender of all VPAs that name none. Absent: `default`.", min_length=1, max_length=253),
    ] = None
    parameters: Annotated[
        dict[str, Annotated[str, _TEXTS]] | None,
        Field("Parameters of that recommender, as `--set` takes them.", max_properties=64),
    ] = None
    settings: Annotated[
        dict[str, Annotated[str, _TEXTS]] | None,
        Field("Settings of the components by the names of their flags, e.g. `min-replicas`.", max_properties=256),
    ] = None


class ScenarioFault(ApiStruct, frozen=True):
    """Something that goes wrong for a time."""

    kind: Annotated[
        str,
        Field(
            "`node-down`: nodes are off, and after five minutes their pods are lost. `refuse-resizes`: kubelets call "
            "every resize infeasible; `refuse-downsizes`: every one that lowers something. `defer-resizes`: kubelets "
            "put every resize off. `slow-starts`: pods take ten times as long to start. `metrics-gap`: usage "
            "is not measured. `recommender-down`, `updater-down`, `admission-down`: that component does not run. "
            "`vpa-deleted`: the VPA of a workload is deleted, and created anew afterwards.",
            required=True,
            enum=FAULT_KINDS,
        ),
    ] = ""
    begin: Annotated[SpanText | None, Field("When, counted from the beginning.", required=True)] = None
    length: Annotated[SpanText | None, Field("For how long.", required=True)] = None
    about: Annotated[
        str | None,
        Field("Names of nodes or workloads that it is about; `*` stands for any text. Absent: all.", max_length=253),
    ] = None


class ScenarioPrices(ApiStruct, frozen=True):
    """What requests cost."""

    name: Annotated[str | None, Field("What reports call the prices. Absent: the scenario's.", max_length=128)] = None
    currency: Annotated[str | None, Field("Absent: `USD`.", min_length=1, max_length=8)] = None
    core_hour: Annotated[
        float | None, Field("Money for one core for an hour.", required=True, minimum=0, maximum=1_000_000)
    ] = None
    gib_hour: Annotated[
        float | None, Field("Money for one GiB for an hour.", required=True, minimum=0, maximum=1_000_000)
    ] = None


class ScenarioSpec(ApiStruct, frozen=True):
    """What is simulated, for how long, and in which variants."""

    seed: Annotated[
        int | None,
        Field("All chance comes from here: the same seed, the same result. Absent: 1.", minimum=0, maximum=MAX_SEED),
    ] = None
    start: Annotated[TimeText | None, Field("When it begins. Absent: Monday, 2026-06-01T00:00:00Z.")] = None
    duration: Annotated[SpanText | None, Field("How long it lasts, e.g. `14d`.", required=True)] = None
    step: Annotated[SpanText | None, Field("From one figure of usage to the next. Absent: `1m`.")] = None
    warm_up: Annotated[
        SpanText | None, Field("What happens in the beginning is simulated and not scored. Absent: `0s`.")
    ] = None
    intervals: Annotated[ScenarioIntervals | None, Field("How often is decided. Absent: as live.")] = None
    nodes: Annotated[
        list[ScenarioNodes] | None,
        Field(
            "Nodes that are always there. Absent: none if there are `nodeGroups`, else enough nodes with 8 CPU and "
            "32Gi.",
            min_items=1,
            max_items=1000,
            list_type="map",
            list_keys=("name",),
        ),
    ] = None
    node_groups: Annotated[
        list[ScenarioNodeGroup] | None,
        Field(
            "Nodes that come and go: the node autoscaler orders them and gives them back. Absent: no node does.",
            min_items=1,
            max_items=100,
            list_type="map",
            list_keys=("name",),
        ),
    ] = None
    workloads: Annotated[list[ScenarioWorkload] | None, Field("Workloads written out.", max_items=MAX_WORKLOADS)] = None
    fleet: Annotated[FleetMix | None, Field("Workloads drawn from a mix, beside those written out.")] = None
    policies: Annotated[
        list[ScenarioPolicy] | None, Field("Sets of manifests.", max_items=1000, list_type="map", list_keys=("name",))
    ] = None
    variants: Annotated[
        list[ScenarioVariant] | None,
        Field(
            "What is compared, the first being what the others are measured against. Absent: `fixed`, requests as "
            "written, and one for each policy.",
            min_items=1,
            max_items=64,
            list_type="map",
            list_keys=("name",),
        ),
    ] = None
    faults: Annotated[list[ScenarioFault] | None, Field("What goes wrong.", max_items=1000)] = None
    prices: Annotated[ScenarioPrices | None, Field("What requests cost. Absent: the built-in example.")] = None


class Scenario(ApiStruct, frozen=True):
    """A fleet of workloads on nodes, and ways to size it."""

    api_version: str = "sim.trellis.x-k8s.io/v1alpha1"
    kind: str = "Scenario"
    metadata: ObjectMeta = ObjectMeta()
    spec: ScenarioSpec = ScenarioSpec()
