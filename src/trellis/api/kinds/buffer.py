"""Buffer, `autoscaling.x-k8s.io/v1alpha1`: spare capacity of the cluster as an object."""

from __future__ import annotations

from typing import Annotated, Any

from trellis.api.kinds.parts import CONDITIONS_FIELD, ApiStruct, StatusCondition, TargetReference
from trellis.api.kube.meta import ObjectMeta
from trellis.api.schema.fields import INT32_MAX, AmountText, DurationText, Field, TimeText
from trellis.base.selectors import MatchExpression, Selector, selector_from_object


class BufferPodSelectorRequirement(ApiStruct, frozen=True):
    """One expression over labels."""

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
    """Chooses objects by their labels; all parts must hold, and no part at all chooses everything."""

    match_labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]] | None,
        Field("Labels with exactly these values.", max_properties=64),
    ] = None
    match_expressions: Annotated[
        list[BufferPodSelectorRequirement] | None,
        Field("Further expressions.", max_items=64, list_type="atomic"),
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
    """A size relative to the target's, rounded up."""

    percent: Annotated[int | None, Field("Percent of the target's replicas.", required=True, **_COUNT)] = None
    min_count: Annotated[int | None, Field("At least this many chunks.", **_COUNT)] = None
    max_count: Annotated[int | None, Field("At most this many chunks.", **_COUNT)] = None


class ReplicaCapacity(ApiStruct, frozen=True):
    """Room for further pods of the target. Exactly one of the two."""

    exactly: Annotated[
        int | None, Field("Room for this many pods. The object's scale drives this field.", **_COUNT)
    ] = None
    percent: Annotated[PercentCapacity | None, Field("Room for a share of the target's replicas.")] = None


_CHUNK = Field("The size of one chunk. Absent: chunks that fit the smallest node of the class.", max_properties=16)
_NODE_SELECTOR = Field("Labels that a node must have as well.", max_properties=64)
_NODE_LABEL = Field(max_length=63)
_POD_LABELS = Field("Labels of the pods: by them affinity and spread tell which pods are meant.", max_properties=64)


class NodeClassCapacity(ApiStruct, frozen=True):
    """Room on nodes of a class: a total, split into chunks that fit them."""

    total_cpu: Annotated[AmountText | None, Field("Upper limit of the CPU of all chunks.", required=True)] = None
    total_mem: Annotated[AmountText | None, Field("Upper limit of the memory of all chunks.", required=True)] = None
    per_chunk_resources: Annotated[dict[str, AmountText] | None, _CHUNK] = None
    node_selector: Annotated[dict[str, Annotated[str, _NODE_LABEL]] | None, _NODE_SELECTOR] = None


class BufferPodSpec(ApiStruct, frozen=True):
    """A pod spec, kept as written; only what scheduling reads counts."""

    containers: Annotated[
        list[dict[str, Any]] | None,
        Field("The containers; their requests make up the chunk.", required=True, min_items=1, max_items=64),
    ] = None


class PodCapacity(ApiStruct, frozen=True):
    """Room for so many pods of a given spec."""

    replica_num: Annotated[int | None, Field("How many.", required=True, **_COUNT)] = None
    pod_spec: Annotated[dict[str, Any] | None, Field("The pod.", required=True, like=BufferPodSpec, opaque=True)] = None
    pod_labels: Annotated[dict[str, Annotated[str, _NODE_LABEL]] | None, _POD_LABELS] = None


class BufferCapacity(ApiStruct, frozen=True):
    """How much room. Exactly one of the three."""

    replicas: Annotated[ReplicaCapacity | None, Field("Room for further pods of a scalable target.")] = None
    node_class: Annotated[NodeClassCapacity | None, Field("Room on nodes of a class.")] = None
    pods: Annotated[PodCapacity | None, Field("Room for pods of a given spec; without a target.")] = None


class ReplicaShorthand(ApiStruct, frozen=True):
    """The proposal's shorthand for `capacity.replicas.percent`."""

    replicas_count_percentage: Annotated[int | None, Field("As `percent`.", required=True, **_COUNT)] = None
    min_count: Annotated[int | None, Field("As `minCount`.", **_COUNT)] = None
    max_count: Annotated[int | None, Field("As `maxCount`.", **_COUNT)] = None


class ScheduleWindow(ApiStruct, frozen=True):
    """A recurring stretch of time."""

    start: Annotated[
        str,
        Field("When it starts: a cron expression of five fields.", required=True, min_length=9, max_length=128),
    ] = ""
    duration: Annotated[DurationText | None, Field("How long it lasts, e.g. `10h`.", required=True)] = None


class BufferSchedule(ApiStruct, frozen=True):
    """When the Buffer counts; outside it is as if deleted."""

    time_zone: Annotated[str | None, Field("IANA name of a time zone. Absent: `UTC`.", max_length=64)] = None
    windows: Annotated[
        list[ScheduleWindow] | None,
        Field(
            "The Buffer is active inside any of them.",
            required=True,
            min_items=1,
            max_items=MAX_WINDOWS,
            list_type="atomic",
        ),
    ] = None


class BufferSpec(ApiStruct, frozen=True):
    """How much room is kept, of which shape, and when."""

    target_ref: Annotated[
        TargetReference | None,
        Field("A scalable workload (`replicas`) or a node class (`nodeClass`).", atomic_map=True),
    ] = None
    type: Annotated[
        str | None,
        Field(
            f"Who keeps the room. Absent: `{ACTIVE_CAPACITY}`, which is the only one Trellis keeps.",
            max_length=316,
        ),
    ] = None
    recreation_strategy: Annotated[
        str | None,
        Field(
            "`KeepEmpty` keeps the room on top of what runs; `KeepMinimum` counts it whether used or not. "
            "Absent: `KeepEmpty`.",
            enum=("KeepEmpty", "KeepMinimum", "keep-empty", "keep-minimum"),
        ),
    ] = None
    capacity: Annotated[BufferCapacity | None, Field("How much room.")] = None
    replica_based_buffer_spec: Annotated[
        ReplicaShorthand | None, Field("Shorthand for `capacity.replicas.percent`. Not beside `capacity`.")
    ] = None
    node_class_buffer_spec: Annotated[
        NodeClassCapacity | None, Field("Shorthand for `capacity.nodeClass`. Not beside `capacity`.")
    ] = None
    schedule: Annotated[BufferSchedule | None, Field("When the Buffer is active. Absent: always.")] = None
    pod_selector: Annotated[
        BufferPodSelector | None,
        Field("With `KeepMinimum`: pods that fill the Buffer. Others fill nothing."),
    ] = None


class BufferStatus(ApiStruct, frozen=True):
    """What is provisioned for the Buffer, and whether it is there."""

    pod_based_buffer_spec: Annotated[
        PodCapacity | None, Field("The pods the Buffer stands for; all that a node autoscaler reads.")
    ] = None
    conditions: Annotated[list[StatusCondition] | None, CONDITIONS_FIELD] = None
    last_fully_provisioned: Annotated[
        TimeText | None, Field("The last time every chunk had room on a ready node.", nullable=True)
    ] = None
    selector: Annotated[
        str | None,
        Field("For `/scale`: an HPA wants a selector of what it scales. Chunks are virtual, and it selects no pod."),
    ] = None
    observed_generation: Annotated[
        int | None, Field("The generation that the status was made from.", minimum=0, format="int64")
    ] = None


class Buffer(ApiStruct, frozen=True):
    """Spare room that the cluster keeps."""

    api_version: str = "autoscaling.x-k8s.io/v1alpha1"
    kind: str = "Buffer"
    metadata: ObjectMeta = ObjectMeta()
    spec: BufferSpec = BufferSpec()
    status: BufferStatus | None = None
