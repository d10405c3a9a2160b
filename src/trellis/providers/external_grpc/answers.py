"""What the answers of a server say about groups, as `GroupState`s; pure functions.

A server may leave out much: a template is then that of a registered node, a price is estimated, and an option that is
unset, zero or equal to the default leaves the autoscaler's setting in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.nodes import Node, NodeSpec, NodeStatus
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.fit.resources import PODS
from trellis.core.nodes.node_groups import GroupOptions, Instance, InstanceState, NodeGroup, estimate_price
from trellis.providers.external_grpc.messages import (
    ErrorClass,
    GroupMessage,
    InstanceMessage,
    InstanceStateNumber,
    NamedNode,
    OptionsMessage,
    TemplateAnswer,
    build_duration,
    build_kube_duration,
    read_seconds,
)
from trellis.providers.external_grpc.node_messages import decode_node

GROUP_INVALID = Reason("ExternalGroupInvalid", "The server describes a node group that cannot be used.", Severity.ERROR)
NO_TEMPLATE = Reason(
    "NoNodeTemplate", "The server has no template of a node group, and no node of it is ready.", Severity.WARNING
)
OUT_OF_RESOURCES = Reason("OutOfResources", "The cloud has no machine for an instance.", Severity.WARNING)
INSTANCE_ERROR = Reason("InstanceError", "The server reports an error of an instance.", Severity.WARNING)

_HOSTNAME: Final = "kubernetes.io/hostname"
# The kubelet's default.
_PODS: Final = "110"
# As many nodes as a group of the autoscaler may have. Servers write the highest number where there is no limit.
_MAX_NODES: Final = 100_000
# Taints that say how a node is now, and not how another one of its group will be.
_PASSING_TAINTS: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "trellis.x-k8s.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
_STATES: Final[Mapping[int, InstanceState]] = {
    InstanceStateNumber.CREATING: InstanceState.ORDERED,
    InstanceStateNumber.DELETING: InstanceState.LEAVING,
}


class GroupShape(msgspec.Struct, frozen=True):
    """What rarely changes about a group. Without a template it is that of a registered node."""

    template: Node | None = None
    price: float | None = None
    options: GroupOptions = GroupOptions()
    is_all_or_none: bool = False


def find_group_fault(group: GroupMessage) -> DetailedReason | None:
    """Why the sizes of a group cannot be used; None if they can."""
    if 0 <= group.min_size <= group.max_size:
        return None
    return DetailedReason(
        GROUP_INVALID,
        f"{group.id} has a minSize of {group.min_size} and a maxSize of {group.max_size}; "
        "they must be 0 or more, in this order",
    )


def build_group(group: GroupMessage, shape: GroupShape, nodes: Iterable[Node]) -> NodeGroup | DetailedReason:
    """The group of an answer; `nodes` are its registered nodes."""
    template = shape.template if shape.template is not None else find_template(nodes)
    if template is None:
        return DetailedReason(NO_TEMPLATE, f"{group.id} has no template and no ready node")
    return NodeGroup(
        name=group.id,
        template=template,
        max_size=min(group.max_size, _MAX_NODES),
        min_size=min(group.min_size, _MAX_NODES),
        price=shape.price if shape.price is not None else estimate_price(template),
        options=shape.options,
    )


def read_template(answer: TemplateAnswer) -> Node | None:
    """The node of an answer, from the field that the server set; None if it set none."""
    data = answer.node or answer.old_node
    return decode_node(data) if data else None


def find_template(nodes: Iterable[Node]) -> Node | None:
    """A template of registered nodes: of the first ready one by name, without what only says how it is now."""
    ready = [node for node in nodes if _is_ready(node)]
    node = min(ready, key=lambda each: each.metadata.name, default=None)
    if node is None:
        return None
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_PASSING_TAINTS))
    stripped = strip_node(node)
    return msgspec.structs.replace(stripped, spec=NodeSpec(taints=taints))


def strip_node(node: Node) -> Node:
    """A node without what distinguishes it from others of its group."""
    labels = {key: value for key, value in node.metadata.labels.items() if key != _HOSTNAME}
    allocatable = dict(node.status.allocatable or node.status.capacity)
    allocatable.setdefault(PODS, _PODS)
    return Node(
        metadata=ObjectMeta(labels=labels),
        spec=NodeSpec(taints=node.spec.taints),
        status=NodeStatus(
            capacity=node.status.capacity or allocatable,
            allocatable=allocatable,
            node_info=node.status.node_info,
            declared_features=node.status.declared_features,
        ),
    )


def _is_ready(node: Node) -> bool:
    return node.metadata.deletion_timestamp is None and any(
        condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions
    )


def build_default_options(defaults: GroupOptions) -> OptionsMessage:
    """The defaults as a request has them, with the fields of older servers.

    The threshold stands in the field of GPUs too: Cluster Autoscaler's example server reads both from that field, and
    would otherwise answer the threshold of GPUs for all nodes.
    """
    threshold = defaults.scale_down_utilization_threshold or 0.0
    unneeded, unready = defaults.scale_down_unneeded_seconds or 0.0, defaults.scale_down_unready_seconds or 0.0
    provision = defaults.max_node_provision_seconds or 0.0
    return OptionsMessage(
        utilization_threshold=threshold,
        gpu_utilization_threshold=threshold,
        old_unneeded=build_kube_duration(unneeded),
        old_unready=build_kube_duration(unready),
        old_max_provision=build_kube_duration(provision),
        unneeded=build_duration(unneeded),
        unready=build_duration(unready),
        max_provision=build_duration(provision),
    )


def read_options(answer: OptionsMessage, defaults: GroupOptions) -> GroupOptions:
    """The options that differ from the defaults. An unset one means the default, as does one that cannot be.

    A threshold of GPUs equal to the one that the request had in its place is no option either.
    """
    threshold, of_gpus = _read_share(answer.utilization_threshold), _read_share(answer.gpu_utilization_threshold)
    if of_gpus == defaults.scale_down_utilization_threshold:
        of_gpus = None
    read: dict[str, Any] = {
        "scale_down_utilization_threshold": threshold,
        "scale_down_gpu_utilization_threshold": of_gpus,
        "scale_down_unneeded_seconds": read_seconds(answer.unneeded, answer.old_unneeded),
        "scale_down_unready_seconds": read_seconds(answer.unready, answer.old_unready),
        "max_node_provision_seconds": read_seconds(answer.max_provision, answer.old_max_provision),
    }
    return GroupOptions(**{name: value for name, value in read.items() if value != getattr(defaults, name)})


def _read_share(share: float) -> float | None:
    return share if 0 < share <= 1 else None


def build_instances(
    answers: Iterable[InstanceMessage],
    nodes: Mapping[str, Node],
    is_released: Callable[[str], bool],
    find_first_seen: Callable[[str], float],
) -> tuple[Instance, ...]:
    """The instances of a group. Their ids are the provider ids of their nodes, which `nodes` are listed by.

    The protocol has no times: an instance is as old as its node, or as the first answer that had it.
    """
    return tuple(
        _build_instance(
            answer, nodes.get(answer.id), is_released=is_released(answer.id), first_seen=find_first_seen(answer.id)
        )
        for answer in answers
        if answer.id
    )


def _build_instance(answer: InstanceMessage, node: Node | None, *, is_released: bool, first_seen: float) -> Instance:
    created = node.metadata.creation_timestamp if node is not None else None
    since = created.timestamp() if created is not None else first_seen
    state = _STATES.get(answer.status.state, InstanceState.RUNNING)
    if is_released:
        return Instance(answer.id, InstanceState.LEAVING, since)
    error = answer.status.error
    if state is not InstanceState.ORDERED or not error.code:
        return Instance(answer.id, state, since)
    reason = OUT_OF_RESOURCES if error.error_class == ErrorClass.OUT_OF_RESOURCES else INSTANCE_ERROR
    details = f"{error.code}: {error.message}" if error.message else error.code
    return Instance(answer.id, InstanceState.FAILED, since, error=DetailedReason(reason, details))


def build_placeholders(
    group: str, target: int, instances: Collection[Instance], find_first_seen: Callable[[str], float]
) -> tuple[Instance, ...]:
    """An ordered instance for each node of the target that the server does not list yet.

    Each has an id, by which the order can be cancelled: the protocol only decreases the target size then.
    """
    listed = sum(instance.state is not InstanceState.LEAVING for instance in instances)
    ids = (f"{group}{_PLACEHOLDER}{number}" for number in range(1, target - listed + 1))
    return tuple(Instance(id_, InstanceState.ORDERED, find_first_seen(id_)) for id_ in ids)


_PLACEHOLDER: Final = "#not-listed-"


def is_placeholder(group: str, instance_id: str) -> bool:
    """Whether an id stands for a node that the server does not list."""
    return instance_id.startswith(group + _PLACEHOLDER)


def name_node(instance_id: str, node: Node | None) -> NamedNode:
    """The node of an instance as a request names it; one that has not registered has the id as its name."""
    if node is None:
        return NamedNode(instance_id, instance_id)
    metadata = node.metadata
    return NamedNode(instance_id, metadata.name, metadata.labels, metadata.annotations)


def name_template(template: Node) -> NamedNode:
    """The node of a template as a request for its price has it."""
    metadata = template.metadata
    return NamedNode(template.spec.provider_id, metadata.name, metadata.labels, metadata.annotations)
