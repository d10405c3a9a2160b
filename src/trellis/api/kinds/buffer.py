"""Buffer, `autoscaling.x-k8s.io/v1alpha1`: spare capacity of the cluster as an object."""

from __future__ import annotations

from typing import Annotated, Any

from trellis.api.kinds.parts import CONDITIONS_FIELD, ApiStruct, StatusCondition, TargetReference
from trellis.api.kube.meta import ObjectMeta
from trellis.api.schema.fields import INT32_MAX, AmountText, DurationText, Field, TimeText
from trellis.base.selectors import MatchExpression, Selector, selector_from_object


class BufferPodSelectorRequirement(ApiStruct, frozen=True):
    """One requirement on a label."""

    key: Annotated[str, Field("The label.", required=True, min_length=1, max_length=317)] = ""
    operator: Annotated[
        str,
        Field("How the label is compared.", required=True, enum=("In", "NotIn", "Exists", "DoesNotExist")),
    ] = ""
    values: Annotated[
        list[Annotated[str, Field(max_length=63)]] | None,
        Field("The values of `In` and `NotIn`.", max_items=64, list_type="atomic"),
    ] = None


class BufferPodSelector(ApiStruct, frozen=True):
    """A label selector; all requirements must hold, and an empty selector selects everything."""

    match_labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]] | None,
        Field("Labels with exactly these values.", max_properties=64),
    ] = None
    match_expressions: Annotated[
        list[BufferPodSelectorRequirement] | None,
        Field("Further requirements.", max_items=64, list_type="atomic"),
    ] = None

    def selector(self) -> Selector:
        """The selector it stands for; raises `InvalidSelector` with the part that cannot be used."""
        expressions = [
            MatchExpression(item.key, item.operator, tuple(item.values or ())) for item in self.match_expressions or ()
        ]
        return selector_from_object(self.match_labels, expressions)


ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
MAX_WINDOWS = 16
_COUNT = {"minimum": 0, "maximum": INT32_MAX, "format": "int32"}


class PercentCapacity(ApiStruct, frozen=True):
    """A percentage of the target's replicas, rounded up."""

    percent: Annotated[int | None, Field("Percentage of the target's replicas.", required=True, **_COUNT)] = None
    min_count: Annotated[int | None, Field("Minimum number of chunks.", **_COUNT)] = None
    max_count: Annotated[int | None, Field("Maximum number of chunks.", **_COUNT)] = None


class ReplicaCapacity(ApiStruct, frozen=True):
    """Capacity for further pods of the target. Exactly one field must be set."""

    exactly: Annotated[
        int | None, Field("Capacity for this many pods. The scale subresource sets this field.", **_COUNT)
    ] = None
    percent: Annotated[PercentCapacity | None, Field("Capacity for a percentage of the target's replicas.")] = None


_CHUNK = Field(
    "Size of one chunk, a virtual pod. Absent: chunks fit the smallest node of the class.", max_properties=16
)
_NODE_SELECTOR = Field("Labels that a node must have in addition.", max_properties=64)
_NODE_LABEL = Field(max_length=63)
_POD_LABELS = Field(
    "Labels of the pods; affinity and topology spread constraints select pods by them.", max_properties=64
)


class NodeClassCapacity(ApiStruct, frozen=True):
    """Capacity on nodes of a class: a total, divided into chunks that fit on them."""

    total_cpu: Annotated[AmountText | None, Field("Upper limit of the CPU of all chunks.", required=True)] = None
    total_mem: Annotated[AmountText | None, Field("Upper limit of the memory of all chunks.", required=True)] = None
    per_chunk_resources: Annotated[dict[str, AmountText] | None, _CHUNK] = None
    node_selector: Annotated[dict[str, Annotated[str, _NODE_LABEL]] | None, _NODE_SELECTOR] = None


class BufferPodSpec(ApiStruct, frozen=True):
    """A pod spec, stored as written; only the fields used by scheduling have an effect."""

    containers: Annotated[
        list[dict[str, Any]] | None,
        Field(
            "Containers; the sum of their requests is the size of the chunk.", required=True, min_items=1, max_items=64
        ),
    ] = None


class PodCapacity(ApiStruct, frozen=True):
    """Capacity for a number of pods of a given spec."""

    replica_num: Annotated[int | None, Field("Number of pods.", required=True, **_COUNT)] = None
    pod_spec: Annotated[
        dict[str, Any] | None, Field("Template of the pods.", required=True, like=BufferPodSpec, opaque=True)
    ] = None
    pod_labels: Annotated[dict[str, Annotated[str, _NODE_LABEL]] | None, _POD_LABELS] = None


class BufferCapacity(ApiStruct, frozen=True):
    """The capacity. Exactly one field must be set."""

    replicas: Annotated[ReplicaCapacity | None, Field("Capacity for further pods of a scalable target.")] = None
    node_class: Annotated[NodeClassCapacity | None, Field("Capacity on nodes of a class.")] = None
    pods: Annotated[PodCapacity | None, Field("Capacity for pods of a given spec, without a target.")] = None


class ReplicaShorthand(ApiStruct, frozen=True):
    """Shorthand for `capacity.replicas.percent`."""

    replicas_count_percentage: Annotated[int | None, Field("As `percent`.", required=True, **_COUNT)] = None
    min_count: Annotated[int | None, Field("As `minCount`.", **_COUNT)] = None
    max_count: Annotated[int | None, Field("As `maxCount`.", **_COUNT)] = None


class ScheduleWindow(ApiStruct, frozen=True):
    """A recurring time window."""

    start: Annotated[
        str,
        Field("Start of the window: a cron expression of five fields.", required=True, min_length=9, max_length=128),
    ] = ""
    duration: Annotated[DurationText | None, Field("Length of the window, such as `10h`.", required=True)] = None


class BufferSchedule(ApiStruct, frozen=True):
    """When the Buffer is active; at other times it has no capacity."""

    time_zone: Annotated[str | None, Field("IANA name of a time zone. Absent: `UTC`.", max_length=64)] = None
    windows: Annotated[
        list[ScheduleWindow] | None,
        Field(
            "Time windows; the Buffer is active while any of them is open.",
            required=True,
            min_items=1,
            max_items=MAX_WINDOWS,
            list_type="atomic",
        ),
    ] = None


class BufferSpec(ApiStruct, frozen=True):
    """The capacity to provision, its size, and when."""

    target_ref: Annotated[
        TargetReference | None,
        Field("A scalable workload (`replicas`) or a node class (`nodeClass`).", atomic_map=True),
    ] = None
    type: Annotated[
        str | None,
        Field(
            f"How the capacity is provisioned. Absent: `{ACTIVE_CAPACITY}`, the only type that Trellis provisions.",
            max_length=316,
        ),
    ] = None
    recreation_strategy: Annotated[
        str | None,
        Field(
            "`KeepEmpty`: the capacity is in addition to running pods. `KeepMinimum`: pods that run use "
            "up the capacity. Absent: `KeepEmpty`.",
            enum=("KeepEmpty", "KeepMinimum", "keep-empty", "keep-minimum"),
        ),
    ] = None
    capacity: Annotated[BufferCapacity | None, Field("The capacity to provision.")] = None
    replica_based_buffer_spec: Annotated[
        ReplicaShorthand | None, Field("Shorthand for `capacity.replicas.percent`. Excludes `capacity`.")
    ] = None
    node_class_buffer_spec: Annotated[
        NodeClassCapacity | None, Field("Shorthand for `capacity.nodeClass`. Excludes `capacity`.")
    ] = None
    schedule: Annotated[BufferSchedule | None, Field("When the Buffer is active. Absent: always.")] = None
    pod_selector: Annotated[
        BufferPodSelector | None,
        Field("With `KeepMinimum`: selector of the pods that use up the capacity."),
    ] = None


class BufferStatus(ApiStruct, frozen=True):
    """The chunks of the Buffer, and whether they are provisioned."""

    pod_based_buffer_spec: Annotated[
        PodCapacity | None, Field("The chunks of the Buffer as virtual pods; a node autoscaler reads them.")
    ] = None
    conditions: Annotated[list[StatusCondition] | None, CONDITIONS_FIELD] = None
    last_fully_provisioned: Annotated[
        TimeText | None, Field("The last time all chunks fit on ready nodes.", nullable=True)
    ] = None
    selector: Annotated[
        str | None,
        Field(
            "Selector of the scale subresource, which an HPA requires. It selects no pod, because chunks are virtual."
        ),
    ] = None
    observed_generation: Annotated[
        int | None, Field("The generation of the spec that the status is about.", minimum=0, format="int64")
    ] = None


class Buffer(ApiStruct, frozen=True):
    """Spare capacity that the cluster keeps."""

    api_version: str = "autoscaling.x-k8s.io/v1alpha1"
    kind: str = "Buffer"
    metadata: ObjectMeta = ObjectMeta()
    spec: BufferSpec = BufferSpec()
    status: BufferStatus | None = None
