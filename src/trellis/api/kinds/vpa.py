"""VerticalPodAutoscaler, `autoscaling.k8s.io/v1`: upstream's object, field for field, and the fields Trellis adds.

Added: `startupBoost.cpu.duration` and `giveUpAfterSeconds`, `updatePolicy.actuationRequirements`, the mode
`InPlaceOnly`, `recommenders[].parameters` and `containerRecommendations[].totalTarget`. As upstream, the schema has
no defaults: they would show up in every GitOps diff. `trellis.api.resolve` defines the meaning of an absent field.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from trellis.api.kinds.parts import CONDITIONS_FIELD, ApiStruct, StatusCondition, TargetReference
from trellis.api.kube.meta import ObjectMeta
from trellis.api.schema.fields import INT32_MAX, AmountText, DurationText, Field, QuantityText

UPDATE_MODES = ("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "InPlaceOnly", "Auto")
CHANGE_REQUIREMENTS = (
    "TargetHigherThanRequests",
    "TargetHigherThanOrEqualToRequests",
    "TargetLowerThanRequests",
    "TargetLowerThanOrEqualToRequests",
)
RESOURCE_SPELLINGS = ("cpu", "memory", "CPU", "Memory")
ANY_CONTAINER = "*"

ResourceAmounts = dict[str, QuantityText]
_CHANGE = Field(
    "How the recommended target must compare with the running pod's request.", required=True, enum=CHANGE_REQUIREMENTS
)


class CPUBoost(ApiStruct, frozen=True):
    """How much CPU a container gets on top while its pod starts, and for how long."""

    type: Annotated[
        str,
        Field(
            "`Factor` multiplies the base by `factor`; `Quantity` adds `quantity` to it.",
            required=True,
            enum=("Factor", "Quantity"),
        ),
    ] = ""
    factor: Annotated[
        int | None,
        Field(
            "Multiplies the base; with `type: Factor` only. 1 is no boost.",
            minimum=1,
            minimum_message="must be >= 1 for type Factor",
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = None
    quantity: Annotated[
        AmountText | None, Field("CPU added to the base; with `type: Quantity` only. Whole milli-CPUs.")
    ] = None
    duration: Annotated[
        DurationText | None,
        Field("How long the boost is kept after the pod is Ready, e.g. `10s`. Absent: `0s`.", added=True),
    ] = None
    duration_seconds: Annotated[
        int | None,
        Field("Upstream's spelling of `duration`, in seconds.", minimum=0, maximum=INT32_MAX, format="int32"),
    ] = None
    give_up_after_seconds: Annotated[
        int | None,
        Field(
            "A pod that is not Ready this long after its start is unboosted all the same. Absent: after the updater's "
            "`--boost-give-up-after`, by default never.",
            added=True,
            minimum=1,
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = None


class StartupBoost(ApiStruct, frozen=True):
    """More of a resource while a pod starts. Without `cpu` it means no boost."""

    cpu: Annotated[CPUBoost | None, Field("The boost of CPU. Memory is never boosted.")] = None


class ActuationRequirement(ApiStruct, frozen=True):
    """When a recommendation may be applied to a running pod."""

    resources: Annotated[
        list[Annotated[str, Field(enum=RESOURCE_SPELLINGS)]] | None,
        Field(
            "The resources the requirement is about: `cpu`, `memory` or both (`CPU` and `Memory` are accepted).",
            required=True,
            min_items=1,
            max_items=2,
            list_type="atomic",
        ),
    ] = None
    change_requirement: Annotated[str, _CHANGE] = ""


class EvictionRequirement(ApiStruct, frozen=True):
    """Upstream's form of a requirement: it governs eviction alone."""

    resources: Annotated[
        list[Annotated[str, Field(upstream_enum=("cpu", "memory"))]] | None,
        Field("The resources the requirement is about: `cpu`, `memory` or both.", required=True),
    ] = None
    change_requirement: Annotated[
        str, Field(upstream_enum=("TargetHigherThanRequests", "TargetLowerThanRequests")).merged(_CHANGE)
    ] = ""


class PodUpdatePolicy(ApiStruct, frozen=True):
    """How and when a recommendation reaches running pods."""

    update_mode: Annotated[
        str | None,
        Field(
            "`Off` only recommends; `Initial` sizes new pods; `Recreate` also evicts; `InPlaceOrRecreate` resizes in "
            "place and evicts where that fails; `InPlace` (also `InPlaceOnly`) never evicts; `Auto` is deprecated and "
            "means `Recreate`. Absent: `Recreate`.",
            enum=UPDATE_MODES,
            upstream_enum=("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto"),
        ),
    ] = None
    min_replicas: Annotated[
        int | None,
        Field(
            "Live replicas a workload needs before any of its pods is evicted. Absent: the updater's `--min-replicas`.",
            minimum=1,
            minimum_message="minReplicas has to be positive",
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = None
    actuation_requirements: Annotated[
        list[ActuationRequirement] | None,
        Field(
            "When a recommendation may be applied, per resource and direction. All must hold before a pod is evicted; "
            "in place, each resource must itself compare as asked. One requirement per resource.",
            added=True,
            max_items=2,
            list_type="atomic",
        ),
    ] = None
    eviction_requirements: Annotated[
        list[EvictionRequirement] | None,
        Field("Upstream's spelling of `actuationRequirements`, for eviction alone. Not beside the other."),
    ] = None
    evict_after_oom_seconds: Annotated[
        int | None,
        Field(
            "A container killed for memory this soon after its start makes its pod a candidate at once. Absent: the "
            "updater's `--evict-after-oom-threshold`.",
            minimum=1,
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = msgspec.field(default=None, name="evictAfterOOMSeconds")


class ContainerResourcePolicy(ApiStruct, frozen=True):
    """How one container is sized."""

    container_name: Annotated[
        str,
        Field("The container, or `*` for all that have no policy of their own.", required=True, min_length=1),
    ] = ""
    mode: Annotated[
        str | None,
        Field("`Off` leaves the container as it is (boost aside). Absent: `Auto`.", enum=("Auto", "Off")),
    ] = None
    min_allowed: Annotated[ResourceAmounts | None, Field("The recommendation is never below this.")] = None
    max_allowed: Annotated[ResourceAmounts | None, Field("The recommendation is never above this.")] = None
    controlled_resources: Annotated[
        list[Annotated[str, Field(enum=("cpu", "memory"))]] | None,
        Field("The resources that are sized. Absent: `cpu` and `memory`."),
    ] = None
    controlled_values: Annotated[
        str | None,
        Field(
            "`RequestsAndLimits` keeps the proportion of limit to request; `RequestsOnly` leaves limits alone. Absent: "
            "`RequestsAndLimits`.",
            enum=("RequestsAndLimits", "RequestsOnly"),
        ),
    ] = None
    oom_bump_up_ratio: Annotated[
        QuantityText | None,
        Field(
            "After an out-of-memory kill the sample is this many times the memory used. Absent: the recommender's "
            "flag (1.2).",
        ),
    ] = None
    oom_min_bump_up: Annotated[
        QuantityText | None,
        Field(
            "After an out-of-memory kill the sample is at least this much above the memory used. Absent: the "
            "recommender's flag (100Mi).",
        ),
    ] = None
    memory_aggregation_interval_seconds: Annotated[
        int | None,
        Field(
            "Length of one memory peak window. Absent: the recommender's flag (24h).",
            minimum=1,
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = None
    memory_aggregation_interval_count: Annotated[
        int | None,
        Field(
            "Number of memory peak windows kept. Absent: the recommender's flag (8).",
            minimum=1,
            format="int64",
        ),
    ] = None
    startup_boost: Annotated[StartupBoost | None, Field("Replaces `spec.startupBoost` whole for this container.")] = (
        None
    )


class PodResourcePolicy(ApiStruct, frozen=True):
    """How the containers of a pod are sized."""

    container_policies: Annotated[
        list[ContainerResourcePolicy] | None, Field("One policy per container, and `*` for the rest.")
    ] = None


class RecommenderSelector(ApiStruct, frozen=True):
    """Names the recommender that serves the object."""

    name: Annotated[
        str,
        Field("Name of the recommender, exactly as it was started.", required=True, min_length=1, max_length=253),
    ] = ""
    parameters: Annotated[
        dict[str, Annotated[str, Field(max_length=256)]] | None,
        Field("Parameters of that recommender, as `--set` takes them.", max_properties=32, added=True),
    ] = None


class VerticalPodAutoscalerSpec(ApiStruct, frozen=True):
    """Which pods are sized, by whom and how."""

    target_ref: Annotated[
        TargetReference,
        Field(
            "The controller whose pods are sized: a well-known one or any kind with a scale subresource.",
            required=True,
            atomic_map=True,
        ),
    ] = TargetReference()
    update_policy: Annotated[
        PodUpdatePolicy | None, Field("How recommendations reach pods. Absent: every field at its default.")
    ] = None
    resource_policy: Annotated[
        PodResourcePolicy | None,
        Field("Limits on the recommendation. Absent: every container is sized, without limits."),
    ] = None
    recommenders: Annotated[
        list[RecommenderSelector] | None,
        Field("The recommender that serves this object, at most one. Absent or empty: `default`.", max_items=1),
    ] = None
    startup_boost: Annotated[
        StartupBoost | None,
        Field("More CPU while a pod starts, for every container without a boost of its own."),
    ] = None


class ContainerRecommendation(ApiStruct, frozen=True):
    """The recommendation for one container."""

    container_name: Annotated[str, Field("The container.")] = ""
    target: Annotated[ResourceAmounts, Field("What the container should request.", required=True)] = {}
    lower_bound: Annotated[ResourceAmounts | None, Field("Below this a running pod is resized.")] = None
    upper_bound: Annotated[ResourceAmounts | None, Field("Above this a running pod is resized.")] = None
    uncapped_target: Annotated[
        ResourceAmounts | None, Field("The target before policies were applied. For information only.")
    ] = None
    total_target: Annotated[
        ResourceAmounts | None,
        Field(
            "The estimate for all replicas together, from the history of the whole workload. An Hvpa reads it.",
            added=True,
        ),
    ] = None


class PodRecommendation(ApiStruct, frozen=True):
    """The recommendation for a pod."""

    container_recommendations: Annotated[list[ContainerRecommendation] | None, Field("One entry per container.")] = None


class VerticalPodAutoscalerStatus(ApiStruct, frozen=True):
    """What was recommended, written by the recommender that serves the object and by nobody else."""

    recommendation: Annotated[PodRecommendation | None, Field("The recommendation in force.")] = None
    conditions: Annotated[list[StatusCondition] | None, CONDITIONS_FIELD] = None
    observed_generation: Annotated[
        int | None, Field("The generation that the status was made from.", minimum=0, format="int64")
    ] = None


class VerticalPodAutoscaler(ApiStruct, frozen=True):
    """How big each pod of a workload is."""

    api_version: str = "autoscaling.k8s.io/v1"
    kind: str = "VerticalPodAutoscaler"
    metadata: ObjectMeta = ObjectMeta()
    spec: VerticalPodAutoscalerSpec = VerticalPodAutoscalerSpec()
    status: VerticalPodAutoscalerStatus | None = None
