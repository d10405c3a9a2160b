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
    """CPU that a container gets in addition while its pod starts, and for how long."""

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
        Field("How long the boost continues after the pod is Ready, such as `10s`. Absent: `0s`.", added=True),
    ] = None
    duration_seconds: Annotated[
        int | None,
        Field("Upstream's spelling of `duration`, in seconds.", minimum=0, maximum=INT32_MAX, format="int32"),
    ] = None
    give_up_after_seconds: Annotated[
        int | None,
        Field(
            "How long a pod that does not become Ready keeps its boost. Absent: the updater's "
            "`--boost-give-up-after`, by default until it is Ready.",
            added=True,
            minimum=1,
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = None


class StartupBoost(ApiStruct, frozen=True):
    """Additional resources while a pod starts. Without `cpu` there is no boost."""

    cpu: Annotated[CPUBoost | None, Field("The boost of CPU. Memory is never boosted.")] = None


class ActuationRequirement(ApiStruct, frozen=True):
    """When a recommendation may be applied to a running pod."""

    resources: Annotated[
        list[Annotated[str, Field(enum=RESOURCE_SPELLINGS)]] | None,
        Field(
            "Resources of the requirement: `cpu`, `memory` or both (`CPU` and `Memory` are accepted).",
            required=True,
            min_items=1,
            max_items=2,
            list_type="atomic",
        ),
    ] = None
    change_requirement: Annotated[str, _CHANGE] = ""


class EvictionRequirement(ApiStruct, frozen=True):
    """Upstream's form of a requirement, for evictions only."""

    resources: Annotated[
        list[Annotated[str, Field(upstream_enum=("cpu", "memory"))]] | None,
        Field("Resources of the requirement: `cpu`, `memory` or both.", required=True),
    ] = None
    change_requirement: Annotated[
        str, Field(upstream_enum=("TargetHigherThanRequests", "TargetLowerThanRequests")).merged(_CHANGE)
    ] = ""


class PodUpdatePolicy(ApiStruct, frozen=True):
    """How and when a recommendation is applied to pods."""

    update_mode: Annotated[
        str | None,
        Field(
            "`Off` only recommends; `Initial` sizes new pods; `Recreate` also evicts; "
            "`InPlaceOrRecreate` resizes in place, or evicts if that fails; `InPlace` (also "
            "`InPlaceOnly`) never evicts; `Auto` is deprecated and means `Recreate`. Absent: `Recreate`.",
            enum=UPDATE_MODES,
            upstream_enum=("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto"),
        ),
    ] = None
    min_replicas: Annotated[
        int | None,
        Field(
            "Minimum number of live replicas to evict a pod of the workload. Absent: the updater's `--min-replicas`.",
            minimum=1,
            minimum_message="minReplicas has to be positive",
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = None
    actuation_requirements: Annotated[
        list[ActuationRequirement] | None,
        Field(
            "When a recommendation may be applied, per resource and direction. For an eviction all "
            "requirements must hold; for a resize in place, each resource must satisfy its own. One "
            "requirement per resource.",
            added=True,
            max_items=2,
            list_type="atomic",
        ),
    ] = None
    eviction_requirements: Annotated[
        list[EvictionRequirement] | None,
        Field("Upstream's spelling of `actuationRequirements`, for evictions only. Excludes `actuationRequirements`."),
    ] = None
    evict_after_oom_seconds: Annotated[
        int | None,
        Field(
            "A pod with a container that was killed for memory within this time after its start is "
            "updated at once. Absent: the updater's `--evict-after-oom-threshold`.",
            minimum=1,
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = msgspec.field(default=None, name="evictAfterOOMSeconds")


class ContainerResourcePolicy(ApiStruct, frozen=True):
    """How one container is sized."""

    container_name: Annotated[
        str,
        Field("Name of the container, or `*` for all without a policy of their own.", required=True, min_length=1),
    ] = ""
    mode: Annotated[
        str | None,
        Field("`Off`: the container is not sized, though it may be boosted. Absent: `Auto`.", enum=("Auto", "Off")),
    ] = None
    min_allowed: Annotated[ResourceAmounts | None, Field("Minimum of the recommendation.")] = None
    max_allowed: Annotated[ResourceAmounts | None, Field("Maximum of the recommendation.")] = None
    controlled_resources: Annotated[
        list[Annotated[str, Field(enum=("cpu", "memory"))]] | None,
        Field("The resources that are sized. Absent: `cpu` and `memory`."),
    ] = None
    controlled_values: Annotated[
        str | None,
        Field(
            "`RequestsAndLimits` keeps the ratio of limit to request; `RequestsOnly` does not change "
            "limits. Absent: `RequestsAndLimits`.",
            enum=("RequestsAndLimits", "RequestsOnly"),
        ),
    ] = None
    oom_bump_up_ratio: Annotated[
        QuantityText | None,
        Field(
            "After an out-of-memory kill, the memory used is multiplied by this. Absent: the recommender's flag (1.2).",
        ),
    ] = None
    oom_min_bump_up: Annotated[
        QuantityText | None,
        Field(
            "After an out-of-memory kill, the memory used is increased by at least this. Absent: the "
            "recommender's flag (100Mi).",
        ),
    ] = None
    memory_aggregation_interval_seconds: Annotated[
        int | None,
        Field(
            "Length of one interval of memory peaks. Absent: the recommender's flag (24h).",
            minimum=1,
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = None
    memory_aggregation_interval_count: Annotated[
        int | None,
        Field(
            "Number of intervals of memory peaks that are kept. Absent: the recommender's flag (8).",
            minimum=1,
            format="int64",
        ),
    ] = None
    startup_boost: Annotated[StartupBoost | None, Field("Replaces `spec.startupBoost` for this container.")] = None


class PodResourcePolicy(ApiStruct, frozen=True):
    """How the containers of a pod are sized."""

    container_policies: Annotated[
        list[ContainerResourcePolicy] | None, Field("One policy per container, and `*` for the rest.")
    ] = None


class RecommenderSelector(ApiStruct, frozen=True):
    """The recommender that serves the object."""

    name: Annotated[
        str,
        Field(
            "Name of the recommender, as in its flag `--recommender-name`.", required=True, min_length=1, max_length=253
        ),
    ] = ""
    parameters: Annotated[
        dict[str, Annotated[str, Field(max_length=256)]] | None,
        Field("Parameters of that recommender, as `--set` takes them.", max_properties=32, added=True),
    ] = None


class VerticalPodAutoscalerSpec(ApiStruct, frozen=True):
    """The pods to size, how, and by which recommender."""

    target_ref: Annotated[
        TargetReference,
        Field(
            "The controller whose pods are sized: a well-known one or any kind with a scale subresource.",
            required=True,
            atomic_map=True,
        ),
    ] = TargetReference()
    update_policy: Annotated[
        PodUpdatePolicy | None, Field("How recommendations are applied to pods. Absent: all defaults.")
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
        Field("Additional CPU while a pod starts, for containers without a boost of their own."),
    ] = None


class ContainerRecommendation(ApiStruct, frozen=True):
    """The recommendation for one container."""

    container_name: Annotated[str, Field("The container.")] = ""
    target: Annotated[ResourceAmounts, Field("Recommended request of the container.", required=True)] = {}
    lower_bound: Annotated[
        ResourceAmounts | None, Field("Lower bound: a running pod with a lower request is updated.")
    ] = None
    upper_bound: Annotated[
        ResourceAmounts | None, Field("Upper bound: a running pod with a higher request is updated.")
    ] = None
    uncapped_target: Annotated[
        ResourceAmounts | None, Field("The target before policies were applied. For information only.")
    ] = None
    total_target: Annotated[
        ResourceAmounts | None,
        Field(
            "Estimated total of all replicas, from the usage history of the workload. An Hvpa reads it.",
            added=True,
        ),
    ] = None


class PodRecommendation(ApiStruct, frozen=True):
    """The recommendation for a pod."""

    container_recommendations: Annotated[list[ContainerRecommendation] | None, Field("One entry per container.")] = None


class VerticalPodAutoscalerStatus(ApiStruct, frozen=True):
    """The recommendation, written only by the recommender that serves the object."""

    recommendation: Annotated[PodRecommendation | None, Field("The current recommendation.")] = None
    conditions: Annotated[list[StatusCondition] | None, CONDITIONS_FIELD] = None
    observed_generation: Annotated[
        int | None, Field("The generation of the spec that the status is about.", minimum=0, format="int64")
    ] = None


class VerticalPodAutoscaler(ApiStruct, frozen=True):
    """Sizes the pods of a workload."""

    api_version: str = "autoscaling.k8s.io/v1"
    kind: str = "VerticalPodAutoscaler"
    metadata: ObjectMeta = ObjectMeta()
    spec: VerticalPodAutoscalerSpec = VerticalPodAutoscalerSpec()
    status: VerticalPodAutoscalerStatus | None = None
