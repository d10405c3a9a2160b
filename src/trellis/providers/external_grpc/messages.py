"""The messages of the external gRPC protocol, with the fields that Trellis reads or writes.

Fields that Cluster Autoscaler removed are here as well, because servers of other versions have them: the node of a
template (removed in 1.35), and durations and moments in Kubernetes' own messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Annotated, Final

from trellis.providers.external_grpc.node_messages import TimeMessage
from trellis.providers.external_grpc.protobuf import Message, Number

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NANOS: Final = 1_000_000_000


class Empty(Message, frozen=True):
    """A message without fields."""


class GroupMessage(Message, frozen=True):
    """A node group. An empty id means none."""

    id: Annotated[str, Number(1)] = ""
    min_size: Annotated[int, Number(2)] = 0
    max_size: Annotated[int, Number(3)] = 0
    debug: Annotated[str, Number(4)] = ""


class NamedNode(Message, frozen=True):
    """A node as requests name it."""

    provider_id: Annotated[str, Number(1)] = ""
    name: Annotated[str, Number(2)] = ""
    labels: Annotated[Mapping[str, str], Number(3)] = _NONE
    annotations: Annotated[Mapping[str, str], Number(4)] = _NONE


class GroupsAnswer(Message, frozen=True):
    """All node groups."""

    groups: Annotated[tuple[GroupMessage, ...], Number(1)] = ()


class NodeRequest(Message, frozen=True):
    """Asks for the group of a node."""

    node: Annotated[NamedNode, Number(1)] = NamedNode()


class GroupAnswer(Message, frozen=True):
    """The group of a node."""

    group: Annotated[GroupMessage, Number(1)] = GroupMessage()


class GroupRequest(Message, frozen=True):
    """Asks for something of one group."""

    id: Annotated[str, Number(1)] = ""


class TargetAnswer(Message, frozen=True):
    """The target size of a group."""

    size: Annotated[int, Number(1)] = 0


class ExpectedSize(Message, frozen=True):
    """A target size."""

    size: Annotated[int, Number(1)] = 0


class DeltaRequest(Message, frozen=True):
    """Changes the target size of a group by some nodes.

    `expected` is an extension of Trellis: the change is refused with ABORTED unless it is the target size. Servers that
    do not know it skip it, as protobuf has it.
    """

    delta: Annotated[int, Number(1)] = 0
    id: Annotated[str, Number(2)] = ""
    expected: Annotated[ExpectedSize | None, Number(1_000)] = None


class DeleteRequest(Message, frozen=True):
    """Deletes nodes of a group."""

    nodes: Annotated[tuple[NamedNode, ...], Number(1)] = ()
    id: Annotated[str, Number(2)] = ""


class InstanceStateNumber(IntEnum):
    """The states of an instance."""

    UNSPECIFIED = 0
    RUNNING = 1
    CREATING = 2
    DELETING = 3


class ErrorClass(IntEnum):
    """The classes of errors of an instance."""

    OUT_OF_RESOURCES = 1
    OTHER = 99


class InstanceErrorMessage(Message, frozen=True):
    """Why an instance failed; without a code there is no error."""

    code: Annotated[str, Number(1)] = ""
    message: Annotated[str, Number(2)] = ""
    error_class: Annotated[int, Number(3)] = 0


class InstanceStatusMessage(Message, frozen=True):
    """The state of an instance, and its error."""

    state: Annotated[int, Number(1)] = 0
    error: Annotated[InstanceErrorMessage, Number(2)] = InstanceErrorMessage()


class InstanceMessage(Message, frozen=True):
    """An instance; its id is the provider id of its node."""

    id: Annotated[str, Number(1)] = ""
    status: Annotated[InstanceStatusMessage, Number(2)] = InstanceStatusMessage()


class InstancesAnswer(Message, frozen=True):
    """The instances of a group."""

    instances: Annotated[tuple[InstanceMessage, ...], Number(1)] = ()


class TemplateAnswer(Message, frozen=True):
    """The node of a group when it is empty, as the bytes of v1.Node.

    Servers up to 1.33 have it in the field 1 alone, where it is a message; its bytes are the same.
    """

    old_node: Annotated[bytes, Number(1)] = b""
    node: Annotated[bytes, Number(2)] = b""


class KubeDuration(Message, frozen=True):
    """A duration in nanoseconds, as Kubernetes writes it."""

    nanos: Annotated[int, Number(1)] = 0


class DurationMessage(Message, frozen=True):
    """A duration, as protobuf writes it."""

    seconds: Annotated[int, Number(1)] = 0
    nanos: Annotated[int, Number(2)] = 0

    @property
    def total_seconds(self) -> float:
        return self.seconds + self.nanos / _NANOS


class OptionsMessage(Message, frozen=True):
    """The options of a group. Servers up to 1.34 read and write the old durations."""

    utilization_threshold: Annotated[float, Number(1)] = 0.0
    gpu_utilization_threshold: Annotated[float, Number(2)] = 0.0
    old_unneeded: Annotated[KubeDuration | None, Number(3)] = None
    old_unready: Annotated[KubeDuration | None, Number(4)] = None
    old_max_provision: Annotated[KubeDuration | None, Number(5)] = None
    zero_or_max: Annotated[bool, Number(6)] = False
    ignore_daemon_sets: Annotated[bool, Number(7)] = False
    unneeded: Annotated[DurationMessage | None, Number(8)] = None
    unready: Annotated[DurationMessage | None, Number(9)] = None
    max_provision: Annotated[DurationMessage | None, Number(10)] = None
    max_startup: Annotated[DurationMessage | None, Number(11)] = None


class OptionsRequest(Message, frozen=True):
    """Asks for the options of a group; they replace the defaults."""

    id: Annotated[str, Number(1)] = ""
    defaults: Annotated[OptionsMessage, Number(2)] = OptionsMessage()


class OptionsAnswer(Message, frozen=True):
    """The options of a group."""

    options: Annotated[OptionsMessage | None, Number(1)] = None


class NodePriceRequest(Message, frozen=True):
    """Asks for the price of a node over a time. Servers up to 1.34 read the old moments."""

    node: Annotated[NamedNode, Number(1)] = NamedNode()
    old_start: Annotated[TimeMessage | None, Number(2)] = None
    old_end: Annotated[TimeMessage | None, Number(3)] = None
    start: Annotated[TimeMessage | None, Number(4)] = None
    end: Annotated[TimeMessage | None, Number(5)] = None


class PriceAnswer(Message, frozen=True):
    """A price."""

    price: Annotated[float, Number(1)] = 0.0


class LabelAnswer(Message, frozen=True):
    """The label of nodes with GPUs."""

    label: Annotated[str, Number(1)] = ""


def build_duration(seconds: float) -> DurationMessage:
    """Seconds as protobuf's duration."""
    whole, nanos = divmod(round(seconds * _NANOS), _NANOS)
    return DurationMessage(whole, nanos)


def build_kube_duration(seconds: float) -> KubeDuration:
    """Seconds as Kubernetes' duration."""
    return KubeDuration(round(seconds * _NANOS))


def read_seconds(current: DurationMessage | None, old: KubeDuration | None) -> float | None:
    """A duration in seconds, from the field that the server set; None if it set none, or zero.

    Servers that do not know a duration leave it out, which reads as zero: nodes would be removed in the next pass.
    """
    seconds = current.total_seconds if current is not None else old.nanos / _NANOS if old is not None else 0.0
    return seconds if seconds > 0 else None
