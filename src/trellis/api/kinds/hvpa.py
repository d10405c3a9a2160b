"""Hvpa, `autoscaling.x-k8s.io/v1alpha1`: replica count and replica size of a workload, decided together by buckets.

The group is not `autoscaling.k8s.io`: that one is protected, and a cluster may still store an archived project's Hvpa
of another schema there.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from trellis.api.kinds.parts import CONDITIONS_FIELD, ApiStruct, StatusCondition, TargetReference
from trellis.api.kinds.vpa import (
    ActuationRequirement,
    EvictionRequirement,
    PodRecommendation,
    PodResourcePolicy,
    RecommenderSelector,
    StartupBoost,
)
from trellis.api.kube.meta import ObjectMeta
from trellis.api.schema.fields import INT32_MAX, AmountText, DurationText, Field, Opaque, QuantityText, TimeText

MAX_BUCKETS = 16
# HHMMSS and an offset from UTC, e.g. 220000+0100.
TIME_OF_DAY_PATTERN = r"^([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9](\+|-)(0[0-9]|1[0-4])[0-5][0-9]$"
_TIME_OF_DAY = {
    "required": True,
    "pattern": TIME_OF_DAY_PATTERN,
    "pattern_message": "must be HHMMSS and an offset from UTC, e.g. 220000-0000",
    "max_length": 11,
}


class ReplicaRange(ApiStruct, frozen=True):
    """A range of replicas."""

    min: Annotated[
        int | None, Field("Minimum number of replicas.", required=True, minimum=1, maximum=INT32_MAX, format="int32")
    ] = None
    max: Annotated[
        int | None, Field("Maximum number of replicas.", required=True, minimum=1, maximum=INT32_MAX, format="int32")
    ] = None


class AmountRange(ApiStruct, frozen=True):
    """A range of a resource, per replica."""

    min: Annotated[AmountText | None, Field("Minimum per replica.", required=True)] = None
    max: Annotated[AmountText | None, Field("Maximum per replica.", required=True)] = None


class Bucket(ApiStruct, frozen=True):
    """A bucket: a range of replicas, and the sizes a replica may have in it."""

    replicas: Annotated[ReplicaRange, Field("Range of replicas.", required=True)] = ReplicaRange()
    cpu: Annotated[AmountRange, Field("Range of CPU per replica.", required=True)] = AmountRange()
    memory: Annotated[AmountRange, Field("Range of memory per replica.", required=True)] = AmountRange()


class ReplicaSize(ApiStruct, frozen=True):
    """How the size of a replica follows from the total."""

    cpu: Annotated[
        str | None,
        Field(
            "`Share`: the total divided by the number of replicas. `AtLeastRecommended`: the larger of "
            "that and the VPA's target. Absent: `Share`.",
            enum=("Share", "AtLeastRecommended"),
        ),
    ] = None
    memory: Annotated[
        str | None,
        Field(
            "As `cpu`. Absent: `AtLeastRecommended`, because every replica has a base usage of memory.",
            enum=("Share", "AtLeastRecommended"),
        ),
    ] = None


_MODE = Field(
    "`Auto`: steps are taken at once. `Off`: never. `MaintenanceWindow`: only inside "
    "`maintenanceWindow`. Absent: `Auto`.",
    enum=("Auto", "Off", "MaintenanceWindow"),
)


class ScaleUpPolicy(ApiStruct, frozen=True):
    """When the workload may grow."""

    update_mode: Annotated[str | None, _MODE] = None
    stabilization_window: Annotated[
        DurationText | None, Field("Window for scale-up: the lowest total in it is used. Absent: `0s`.")
    ] = None


class ScaleDownPolicy(ApiStruct, frozen=True):
    """When the workload may shrink."""

    update_mode: Annotated[str | None, _MODE] = None
    stabilization_window: Annotated[
        DurationText | None, Field("Window for scale-down: the highest total in it is used. Absent: `5m`.")
    ] = None
    min_change_percent: Annotated[
        int | None,
        Field(
            "Minimum reduction of the size in percent, at an unchanged number of replicas. Absent: 10.",
            minimum=0,
            maximum=100,
        ),
    ] = None
    overlap_percent: Annotated[
        int | None,
        Field(
            "How far, in percent, a total must fall below the lower edge of the bucket before the number "
            "of replicas falls. Absent: 10.",
            minimum=0,
            maximum=100,
        ),
    ] = None


class MaintenanceWindow(ApiStruct, frozen=True):
    """A daily window, which may cross midnight."""

    begin: Annotated[str, Field("Start of the window.", **_TIME_OF_DAY)] = ""
    end: Annotated[str, Field("End of the window.", **_TIME_OF_DAY)] = ""


class HpaTemplateSpec(ApiStruct, frozen=True):
    """An autoscaling/v2 HPA spec without its target. Stored as written; the API server validates the rest."""

    min_replicas: Annotated[
        int | None,
        Field("As in an HPA; at most the first bucket's `replicas.min`.", minimum=0, maximum=INT32_MAX),
    ] = None
    max_replicas: Annotated[
        int | None,
        Field("As in an HPA; at least the last bucket's `replicas.max`.", minimum=1, maximum=INT32_MAX),
    ] = None
    scale_target_ref: Annotated[
        Opaque | None, Field("Not allowed: the target is the scale subresource of this Hvpa.")
    ] = None


class HpaTemplate(ApiStruct, frozen=True):
    """Template of the owned HPA."""

    spec: Annotated[dict[str, Any] | None, Field("The HPA's spec.", like=HpaTemplateSpec, opaque=True)] = None


class HpaSource(ApiStruct, frozen=True):
    """The HPA, the horizontal source of demand."""

    deploy: Annotated[bool | None, Field("Whether the Hvpa owns an HPA. Absent: true.")] = None
    template: Annotated[HpaTemplate | None, Field("Template of the owned HPA.")] = None


class VpaTemplateUpdatePolicy(ApiStruct, frozen=True):
    """The part of an update policy that is allowed in a template; the mode is `Off`."""

    min_replicas: Annotated[int | None, Field("As in a VPA.", minimum=1, maximum=INT32_MAX, format="int32")] = None
    actuation_requirements: Annotated[
        list[ActuationRequirement] | None,
        Field("As in a VPA, for the Hvpa's pods and recommendation.", max_items=2, list_type="atomic"),
    ] = None
    update_mode: Annotated[str | None, Field("Not allowed: the mode is always `Off`.", max_length=64)] = None
    eviction_requirements: Annotated[
        list[EvictionRequirement] | None, Field("Not allowed: use `actuationRequirements`.", max_items=16)
    ] = None
    evict_after_oom_seconds: Annotated[int | None, Field("Not allowed in a template.")] = msgspec.field(
        default=None, name="evictAfterOOMSeconds"
    )


class VpaTemplateSpec(ApiStruct, frozen=True):
    """A VerticalPodAutoscaler spec without its target. Stored as written."""

    update_policy: Annotated[
        VpaTemplateUpdatePolicy | None, Field("Only `actuationRequirements` and `minReplicas`.")
    ] = None
    resource_policy: Annotated[PodResourcePolicy | None, Field("As in a VPA.")] = None
    recommenders: Annotated[list[RecommenderSelector] | None, Field("As in a VPA.", max_items=1)] = None
    startup_boost: Annotated[StartupBoost | None, Field("As in a VPA, with the Hvpa's recommendation as base.")] = None
    target_ref: Annotated[Opaque | None, Field("Not allowed: the target is that of the Hvpa.")] = None


class VpaTemplate(ApiStruct, frozen=True):
    """Template of the owned VPA."""

    spec: Annotated[dict[str, Any] | None, Field("The VPA's spec.", like=VpaTemplateSpec, opaque=True)] = None


class VpaSource(ApiStruct, frozen=True):
    """The VPA, the vertical source of demand."""

    deploy: Annotated[bool | None, Field("Whether the Hvpa owns a VPA in mode `Off`. Absent: true.")] = None
    template: Annotated[VpaTemplate | None, Field("Template of the owned VPA.")] = None


class HvpaSpec(ApiStruct, frozen=True):
    """The target, the sources of demand, and the buckets."""

    target_ref: Annotated[
        TargetReference, Field("The workload; it needs a scale subresource.", required=True, atomic_map=True)
    ] = TargetReference()
    replicas: Annotated[
        int | None,
        Field(
            "Written through the scale subresource by an HPA or `kubectl scale`: a demand, which the "
            "Hvpa converts to buckets. Leave it out of manifests.",
            minimum=0,
            maximum=INT32_MAX,
            format="int32",
        ),
    ] = None
    hpa: Annotated[HpaSource | None, Field("The HPA that targets the scale subresource of this object.")] = None
    vpa: Annotated[VpaSource | None, Field("The VPA that recommends the size of each pod.")] = None
    buckets: Annotated[
        list[Bucket] | None,
        Field(
            "Buckets, ascending in replicas.",
            required=True,
            min_items=1,
            max_items=MAX_BUCKETS,
            list_type="atomic",
        ),
    ] = None
    replica_size: Annotated[ReplicaSize | None, Field("How the size of a replica follows from the total.")] = None
    scale_up: Annotated[ScaleUpPolicy | None, Field("When the workload may grow.")] = None
    scale_down: Annotated[ScaleDownPolicy | None, Field("When the workload may shrink.")] = None
    maintenance_window: Annotated[MaintenanceWindow | None, Field("The window of the mode `MaintenanceWindow`.")] = None


class ResourceTotals(ApiStruct, frozen=True):
    """Totals of all replicas."""

    cpu: Annotated[QuantityText | None, Field("CPU of all replicas together.")] = None
    memory: Annotated[QuantityText | None, Field("Memory of all replicas together.")] = None


class HpaDemand(ApiStruct, frozen=True):
    """The total that an HPA, or a write to the scale subresource, asks for, and when it was set."""

    total: Annotated[ResourceTotals | None, Field("The total.")] = None
    time: Annotated[TimeText | None, Field("When it was set.", nullable=True)] = None


class BlockedStep(ApiStruct, frozen=True):
    """A blocked step, and its reason."""

    direction: Annotated[str, Field("`Up` or `Down`.", enum=("Up", "Down"))] = ""
    reason: Annotated[
        str,
        Field(
            "Reason for which the step is blocked.",
            required=True,
            enum=(
                "StabilizationWindow",
                "MaintenanceWindow",
                "UpdatePolicy",
                "MinChange",
                "NoRecommendation",
            ),
        ),
    ] = ""
    message: Annotated[str, Field("The reason as a sentence.", max_length=1024)] = ""


class HvpaStatus(ApiStruct, frozen=True):
    """The number and size of replicas that were decided, and what blocks further steps."""

    replicas: Annotated[
        int | None, Field("Replicas of the target, for the scale subresource.", minimum=0, format="int32")
    ] = None
    selector: Annotated[
        str | None, Field("Selector of the target's pods, for the scale subresource.", max_length=4096)
    ] = None
    recommendation: Annotated[
        PodRecommendation | None, Field("The size per replica, applied by admission and updater.")
    ] = None
    bucket: Annotated[
        int | None,
        Field(
            "Index of the chosen bucket, from 0; absent if the number of replicas is in no bucket.",
            minimum=0,
            format="int32",
        ),
    ] = None
    last_scale_time: Annotated[
        TimeText | None, Field("When the target's replicas were last written.", nullable=True)
    ] = None
    totals: Annotated[
        ResourceTotals | None,
        Field(
            "Estimated total of all replicas, written by the recommender if the VPA's status has none; "
            "scaled by the ratio of targets if another recommender serves the VPA."
        ),
    ] = None
    hpa: Annotated[HpaDemand | None, Field("The demand of the HPA, or of a write to the scale subresource.")] = None
    blocked: Annotated[
        list[BlockedStep] | None,
        Field("Blocked steps, with their reasons.", max_items=16, list_type="atomic"),
    ] = None
    conditions: Annotated[list[StatusCondition] | None, CONDITIONS_FIELD] = None
    observed_generation: Annotated[
        int | None, Field("The generation of the spec that the status is about.", minimum=0, format="int64")
    ] = None


class Hvpa(ApiStruct, frozen=True):
    """Decides the number of replicas of a workload, and the size of each."""

    api_version: str = "autoscaling.x-k8s.io/v1alpha1"
    kind: str = "Hvpa"
    metadata: ObjectMeta = ObjectMeta()
    spec: HvpaSpec = HvpaSpec()
    status: HvpaStatus | None = None
