"""The node that a group makes: from its nodes, or before it has any from annotations and the infrastructure template.

The annotations are those of Cluster Autoscaler. They count before the status of the infrastructure template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from trellis.api.cluster_api.machines import InfrastructureTemplate
from trellis.api.kinds.node_group import MOST_DEVICES
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.nodes import Node, NodeSpec, NodeStatus, NodeSystemInfo, Taint
from trellis.base.errors import InvalidQuantity
from trellis.base.reasons import DetailedReason
from trellis.core.cluster.node_manifest import ARCHITECTURE, OS
from trellis.core.fit.devices import is_device_resource
from trellis.core.fit.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, parse_nanos, parse_nanos_or_zero
from trellis.core.nodes.node_groups import GroupDevices
from trellis.providers.cluster_api.declarations import InvalidMachineGroup
from trellis.providers.cluster_api.objects import MachineGroup

_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"
_GPU_COUNT: Final = f"{_CAPACITY}gpu-count"
_DRA_DRIVER: Final = f"{_CAPACITY}dra-driver"
_AMOUNTS: Final = {"cpu": CPU, "memory": MEMORY, "ephemeral-disk": EPHEMERAL_STORAGE, "maxPods": PODS}
_DEFAULT_PODS: Final = "110"
_ZONE: Final = "topology.kubernetes.io/zone"
_HOSTNAME: Final = "kubernetes.io/hostname"
# What kubelets declare from that version on; without it no node would fit pods that need it.
_FEATURES: Final = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers")
_FEATURES_SINCE: Final = (1, 36)

# The domains whose labels Cluster API copies from Machines to Nodes.
_SYNCED_DOMAINS: Final = ("node-role.kubernetes.io", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io")

# Taints that come and go: of the node lifecycle, of uninitialized nodes, and of autoscalers.
_PASSING_TAINTS: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cluster.x-k8s.io/",
    "trellis.x-k8s.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
# Of so many nodes at most it is read what they have in common.
_SAMPLES: Final = 20

_TAINT: Final = re.compile(r"([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)")


def build_template(
    group: MachineGroup,
    infrastructure: InfrastructureTemplate | DetailedReason | None,
    nodes: Sequence[Node],
    older: Sequence[Node] = (),
) -> Node:
    """The node to expect, without a name. Raises `InvalidMachineGroup`.

    `nodes` are those of the present template of Machines. Those of an `older` one count where nothing else is known.
    """
    taints = _read_taints(group)
    labels = _read_labels(group)
    found = infrastructure if isinstance(infrastructure, InfrastructureTemplate) else InfrastructureTemplate()
    if nodes:
        sample = _build_from_nodes(sorted(nodes, key=lambda node: node.metadata.name)[:_SAMPLES], labels, taints)
        return _with_declared_devices(sample, {**found.status.capacity, **_read_gpus(group)})
    capacity = _read_capacity(group, found.status.capacity)
    missing = [name for name in (CPU, MEMORY) if name not in capacity]
    if missing and older:
        return _build_from_nodes(sorted(older, key=lambda node: node.metadata.name)[:_SAMPLES], labels, taints)
    if missing:
        why = f" ({infrastructure})" if isinstance(infrastructure, DetailedReason) else ""
        keys = " and ".join(f"{_CAPACITY}{name}" for name in missing)
        raise InvalidMachineGroup(
            group,
            f"annotations {keys}",
            f"must be set, because the group has no node and {group.template_key} has no status.capacity{why}",
        )
    info = found.status.node_info
    system = {ARCHITECTURE: info.architecture or "amd64", OS: info.operating_system or "linux"}
    version = group.written.spec.template.spec.version
    node_info = NodeSystemInfo(kubelet_version=version, architecture=system[ARCHITECTURE], operating_system=system[OS])
    features = _FEATURES if _read_version(version) >= _FEATURES_SINCE else ()
    return Node(
        ObjectMeta(labels={**system, **labels}),
        NodeSpec(taints=tuple(taints.values())),
        NodeStatus(capacity=capacity, allocatable=capacity, node_info=node_info, declared_features=features),
    )


def _build_from_nodes(
    nodes: Sequence[Node], labels: Mapping[str, str], taints: Mapping[tuple[str, str], Taint]
) -> Node:
    """What the nodes of a group have in common: bootstrap configurations add labels and taints of their own."""
    first, *others = nodes
    common = {
        key: value
        for key, value in first.metadata.labels.items()
        if key != _HOSTNAME and all(node.metadata.labels.get(key) == value for node in others)
    }
    found = [{(taint.key, taint.effect) for taint in node.spec.taints} for node in others]
    lasting = {
        (taint.key, taint.effect): Taint(taint.key, taint.value, taint.effect)
        for taint in first.spec.taints
        if not taint.key.startswith(_PASSING_TAINTS) and all((taint.key, taint.effect) in keys for keys in found)
    }
    status = NodeStatus(
        capacity=first.status.capacity,
        allocatable=first.status.allocatable,
        node_info=first.status.node_info,
        declared_features=first.status.declared_features,
    )
    every = {**lasting, **taints}
    return Node(ObjectMeta(labels={**common, **labels}), NodeSpec(taints=tuple(every.values())), status)


def _with_declared_devices(sample: Node, capacity: Mapping[str, str]) -> Node:
    """The node with the GPUs that its group declares: its device plugin may not have started yet."""
    has = sample.status.allocatable
    missing = {
        name: amount
        for name, amount in capacity.items()
        if is_device_resource(name) and parse_nanos_or_zero(amount) > 0 and not parse_nanos_or_zero(has.get(name, "0"))
    }
    return replace(sample, status=replace(sample.status, allocatable={**has, **missing})) if missing else sample


def read_devices(group: MachineGroup) -> tuple[GroupDevices, ...]:
    """The devices of a node for resource claims. Raises `InvalidMachineGroup`.

    The annotations name the driver alone: the class has its name, as those of the known drivers do.
    """
    annotations = group.written.metadata.annotations
    driver, count = annotations.get(_DRA_DRIVER), annotations.get(_GPU_COUNT)
    if not driver or count is None:
        return ()
    if not count.strip().isdecimal() or int(count) > MOST_DEVICES:
        raise InvalidMachineGroup(
            group, f"annotation {_GPU_COUNT}", f'must be a number of at most {MOST_DEVICES}, but is "{count}"'
        )
    return (GroupDevices(driver, driver, int(count)),)


def _read_gpus(group: MachineGroup) -> dict[str, str]:
    """The GPUs that pods request as an extended resource: with a driver for claims they do not."""
    annotations = group.written.metadata.annotations
    accelerator, count = annotations.get(f"{_CAPACITY}gpu-type"), annotations.get(_GPU_COUNT)
    return {accelerator: count} if accelerator and count and not annotations.get(_DRA_DRIVER) else {}


def _read_capacity(group: MachineGroup, of_template: Mapping[str, str]) -> dict[str, str]:
    annotations = group.written.metadata.annotations
    declared = {
        resource: (f"annotation {_CAPACITY}{name}", annotations[_CAPACITY + name])
        for name, resource in _AMOUNTS.items()
        if _CAPACITY + name in annotations
    }
    declared |= {name: (f"annotation {_GPU_COUNT}", count) for name, count in _read_gpus(group).items()}
    field = f"status.capacity of {group.template_key}"
    amounts = {name: (field, amount) for name, amount in of_template.items()} | declared
    capacity = {PODS: _DEFAULT_PODS}
    for name, (source, amount) in amounts.items():
        try:
            is_negative = parse_nanos(amount) < 0
        except InvalidQuantity as error:
            raise InvalidMachineGroup(group, source, str(error)) from error
        if is_negative:
            raise InvalidMachineGroup(group, source, f'must not be negative, but is "{amount}"')
        capacity[name] = amount
    return capacity


def _read_labels(group: MachineGroup) -> dict[str, str]:
    """The labels of a new node: of the annotation before those that Cluster API copies, and the failure domain."""
    template, annotations = group.written.spec.template, group.written.metadata.annotations
    labels = {_ZONE: template.spec.failure_domain} if template.spec.failure_domain else {}
    labels |= {key: value for key, value in template.metadata.labels.items() if _is_synced(key)}
    for entry in _split(annotations.get(f"{_CAPACITY}labels", "")):
        key, equals, value = entry.partition("=")
        if not equals or not key:
            raise InvalidMachineGroup(group, f"annotation {_CAPACITY}labels", f'must be key=value, but is "{entry}"')
        labels[key] = value
    return labels


def _is_synced(key: str) -> bool:
    domain = key.partition("/")[0]
    return any(domain == synced or domain.endswith(f".{synced}") for synced in _SYNCED_DOMAINS)


def _read_taints(group: MachineGroup) -> dict[tuple[str, str], Taint]:
    """The taints of a new node by key and effect; the annotation counts before the template."""
    taints = {(taint.key, taint.effect): taint for taint in group.written.spec.template.spec.taints}
    annotations = group.written.metadata.annotations
    for entry in _split(annotations.get(f"{_CAPACITY}taints", "")):
        match = _TAINT.fullmatch(entry)
        if match is None:
            rule = f'must be key=value:effect, but is "{entry}"'
            raise InvalidMachineGroup(group, f"annotation {_CAPACITY}taints", rule)
        taint = Taint(match[1], match[2] or "", match[3])
        taints[taint.key, taint.effect] = taint
    return taints


def _split(text: str) -> Iterable[str]:
    return (entry.strip() for entry in text.split(",") if entry.strip())


def _read_version(text: str) -> tuple[int, int]:
    """Major and minor of a version such as v1.36.3; zeros if there is none."""
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
