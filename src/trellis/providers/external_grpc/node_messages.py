"""The slice of v1.Node that templates have, as protobuf, and its conversion from and to `Node`.

The numbers are those of Kubernetes' API, which never change. v1.Node stands in messages without the envelope that the
API server puts around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Final

from trellis.api.kube.meta import Condition, ObjectMeta
from trellis.api.kube.nodes import Node, NodeSpec, NodeStatus, NodeSystemInfo, Taint
from trellis.providers.external_grpc.protobuf import Message, Number, decode

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class TimeMessage(Message, frozen=True):
    """A moment. Kubernetes' own message and protobuf's timestamp are the same on the wire."""

    seconds: Annotated[int, Number(1)] = 0
    nanos: Annotated[int, Number(2)] = 0


class QuantityMessage(Message, frozen=True):
    """A quantity as text."""

    text: Annotated[str, Number(1)] = ""


class MetadataMessage(Message, frozen=True):
    """The metadata of an object."""

    name: Annotated[str, Number(1)] = ""
    uid: Annotated[str, Number(5)] = ""
    created: Annotated[TimeMessage | None, Number(8)] = None
    labels: Annotated[Mapping[str, str], Number(11)] = _NONE
    annotations: Annotated[Mapping[str, str], Number(12)] = _NONE


class TaintMessage(Message, frozen=True):
    """A taint."""

    key: Annotated[str, Number(1)] = ""
    value: Annotated[str, Number(2)] = ""
    effect: Annotated[str, Number(3)] = ""


class NodeSpecMessage(Message, frozen=True):
    """The spec of a node."""

    provider_id: Annotated[str, Number(3)] = ""
    unschedulable: Annotated[bool, Number(4)] = False
    taints: Annotated[tuple[TaintMessage, ...], Number(5)] = ()


class NodeConditionMessage(Message, frozen=True):
    """A condition of a node."""

    type: Annotated[str, Number(1)] = ""
    status: Annotated[str, Number(2)] = ""
    reason: Annotated[str, Number(5)] = ""
    message: Annotated[str, Number(6)] = ""


class NodeSystemInfoMessage(Message, frozen=True):
    """What runs on a node."""

    kernel_version: Annotated[str, Number(4)] = ""
    container_runtime_version: Annotated[str, Number(6)] = ""
    kubelet_version: Annotated[str, Number(7)] = ""
    operating_system: Annotated[str, Number(9)] = ""
    architecture: Annotated[str, Number(10)] = ""


class NodeStatusMessage(Message, frozen=True):
    """The status of a node."""

    capacity: Annotated[Mapping[str, QuantityMessage], Number(1)] = MappingProxyType({})
    allocatable: Annotated[Mapping[str, QuantityMessage], Number(2)] = MappingProxyType({})
    conditions: Annotated[tuple[NodeConditionMessage, ...], Number(4)] = ()
    node_info: Annotated[NodeSystemInfoMessage, Number(7)] = NodeSystemInfoMessage()
    declared_features: Annotated[tuple[str, ...], Number(14)] = ()


class NodeMessage(Message, frozen=True):
    """A node."""

    metadata: Annotated[MetadataMessage, Number(1)] = MetadataMessage()
    spec: Annotated[NodeSpecMessage, Number(2)] = NodeSpecMessage()
    status: Annotated[NodeStatusMessage, Number(3)] = NodeStatusMessage()


def decode_node(data: bytes) -> Node:
    """The node of these bytes; raises `InvalidMessage` if they are none."""
    message = decode(NodeMessage, data)
    metadata, spec, status = message.metadata, message.spec, message.status
    created = metadata.created
    return Node(
        metadata=ObjectMeta(
            name=metadata.name,
            uid=metadata.uid,
            creation_timestamp=datetime.fromtimestamp(created.seconds, UTC) if created and created.seconds else None,
            labels=metadata.labels,
            annotations=metadata.annotations,
        ),
        spec=NodeSpec(
            provider_id=spec.provider_id,
            unschedulable=spec.unschedulable,
            taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in spec.taints),
        ),
        status=NodeStatus(
            capacity={name: quantity.text for name, quantity in status.capacity.items()},
            allocatable={name: quantity.text for name, quantity in status.allocatable.items()},
            conditions=tuple(
                Condition(type=written.type, status=written.status, reason=written.reason, message=written.message)
                for written in status.conditions
            ),
            node_info=NodeSystemInfo(
                kernel_version=status.node_info.kernel_version,
                container_runtime_version=status.node_info.container_runtime_version,
                kubelet_version=status.node_info.kubelet_version,
                operating_system=status.node_info.operating_system,
                architecture=status.node_info.architecture,
            ),
            declared_features=status.declared_features,
        ),
    )


def encode_node(node: Node) -> bytes:
    """The bytes of a node; times are left out."""
    metadata, spec, status = node.metadata, node.spec, node.status
    info = status.node_info
    return NodeMessage(
        metadata=MetadataMessage(
            name=metadata.name, uid=metadata.uid, labels=metadata.labels, annotations=metadata.annotations
        ),
        spec=NodeSpecMessage(
            provider_id=spec.provider_id,
            unschedulable=spec.unschedulable,
            taints=tuple(TaintMessage(taint.key, taint.value, taint.effect) for taint in spec.taints),
        ),
        status=NodeStatusMessage(
            capacity=_build_quantities(status.capacity),
            allocatable=_build_quantities(status.allocatable),
            conditions=tuple(
                NodeConditionMessage(condition.type, condition.status, condition.reason, condition.message)
                for condition in status.conditions
            ),
            node_info=NodeSystemInfoMessage(
                kernel_version=info.kernel_version,
                container_runtime_version=info.container_runtime_version,
                kubelet_version=info.kubelet_version,
                operating_system=info.operating_system,
                architecture=info.architecture,
            ),
            declared_features=status.declared_features,
        ),
    ).encode()


def _build_quantities(quantities: Mapping[str, object]) -> dict[str, QuantityMessage]:
    return {name: QuantityMessage(str(quantity)) for name, quantity in quantities.items()}
