"""Replacements of pods that their nodes are too small for: of pending resizes, and of recommended growth.

A resize that its node has no capacity for never takes effect there. Where the update mode of the pod's VPA or Hvpa
evicts, the updater evicts the pod after a while, and its replacement needs a place: it counts as a virtual pod with the
size that admission will give to it. Of several pods on a node only as many count as have to leave until the others fit.
Where nothing evicts the pod, another node would be of no use to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.api.kube.pods import Pod
from trellis.base.errors import InvalidInput
from trellis.base.reasons import DetailedReason, Reason
from trellis.core.buffers.pods import select_shared_labels
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand, NodeTable, Occupancy, Storage, find_volume_terms
from trellis.core.fit.demand import ResourceAmounts
from trellis.core.nodes.state.devices import DeviceClaims
from trellis.core.nodes.state.growth import PodGrowth
from trellis.core.nodes.state.pods import DemandReader, PendingPod, PlacedPod
from trellis.core.nodes.state.recommended_sizes import RecommendedSize
from trellis.core.nodes.state.snapshot import NodesAndPods
from trellis.core.usage.columns import BoolColumn

RESIZE_AWAITS_NODE: Final = Reason(
    "ResizeAwaitsNode",
    "The resize of the pod does not fit on its node, and its replacement on no other: a node is ordered or upcoming.",
)
RESIZE_FITS_ELSEWHERE: Final = Reason(
    "ResizeFitsElsewhere",
    "The resize of the pod does not fit on its node; once the pod is evicted, its replacement fits on a ready node.",
)
RESIZE_WITHOUT_EVICTION: Final = Reason(
    "ResizeWithoutEviction",
    "The resize of the pod does not fit on its node, and another node would not help, because the updater does not "
    "evict the pod: by its update mode, for lack of replicas, or because no VPA or Hvpa governs it.",
)


class ReplacementDemands:
    """Builds the demands of replacements of pods. Raises `InvalidInput` for a pod that cannot be read."""

    def __init__(self, storage: Storage, growth: PodGrowth, device_claims: DeviceClaims) -> None:
        self._storage = storage
        self._growth = growth
        self._device_claims = device_claims
        self._demands = DemandReader()
        # The last replacement of each controller, with its pod.
        self._last: dict[str, tuple[Pod, RecommendedSize, Demand]] = {}

    def build_demand(self, placed: PlacedPod) -> Demand:
        """The demand of the replacement: requests as admission sets them, and without the pod's own node."""
        demand = self._build_demand(placed)
        if not placed.pod.spec.resource_claims:
            return demand
        devices = self._device_claims.read_replacement(placed.pod)
        if isinstance(devices, DetailedReason):
            raise InvalidInput(placed.pod.metadata.name, str(devices))
        return demand.with_devices(devices)

    def _build_demand(self, placed: PlacedPod) -> Demand:
        pod, size = placed.pod, self._growth.get_size(placed.key)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        if not size.starting:
            return self._demands.read(msgspec.structs.replace(pod, spec=spec), self._storage)
        labels = select_shared_labels(pod.metadata.labels)
        owner = pod.metadata.controller.uid if pod.metadata.controller is not None else ""
        if owner in self._last and not spec.volumes:
            last, last_size, demand = self._last[owner]
            if last_size == size and last.spec == spec and last.metadata.labels == labels:
                return demand
        metadata = msgspec.structs.replace(pod.metadata, labels=labels)
        terms = find_volume_terms(spec, pod.metadata, self._storage)
        demand = Demand.of(spec, size.starting, metadata=metadata, volumes=terms)
        self._last[owner] = msgspec.structs.replace(pod, spec=spec, metadata=metadata), size, demand
        return demand


class ResizeReplacements(msgspec.Struct, frozen=True):
    """The virtual pods for resizes that do not fit, and the pods whose resizes another node would not help."""

    pods: tuple[PendingPod, ...] = ()
    without_eviction: tuple[ObjectKey, ...] = ()


# Pods that leave their nodes for growth and count in a plan.
_MAX_LEAVING: Final = 1_000

NO_REPLACEMENTS: Final = ResizeReplacements()


def find_resize_replacements(snapshot: NodesAndPods, replacements: ReplacementDemands) -> ResizeReplacements:
    """The replacements for pending resizes that do not fit on the nodes of their pods."""
    waiting: defaultdict[str, list[PlacedPod]] = defaultdict(list)
    for placed in snapshot.pending_resizes.values():
        if placed.is_counted:
            waiting[placed.node].append(placed)
    pods: list[PendingPod] = []
    stuck: list[ObjectKey] = []
    for node, resizing in sorted(waiting.items()):
        number = snapshot.table.find(node)
        if number < 0:
            continue
        space = _NodeSpace(snapshot.table, snapshot.running.used, number)
        for placed in sorted(resizing, key=lambda placed: placed.key):
            if _fits_in_place(placed, space):
                continue
            if not snapshot.growth.get_size(placed.key).is_evictable:
                stuck.append(placed.key)
            elif (replacement := _build_replacement(placed, replacements)) is not None:
                space.add(placed.demand.amounts)
                pods.append(replacement)
    return ResizeReplacements(tuple(pods), tuple(stuck))


def find_growth_replacements(
    snapshot: NodesAndPods,
    used: Occupancy,
    nodes: BoolColumn,
    displaced: Iterable[PendingPod],
    replacements: ReplacementDemands,
) -> tuple[PendingPod, ...]:
    """The replacements of pods that have to leave their nodes for recommended growth to fit, the largest growth first.

    They are at most a thousand: the updater does not evict more in the time in which a node is removed.
    `used` counts the growth, `nodes` are those that count; `displaced` are pods that leave anyway.
    """
    table, growth = snapshot.table, snapshot.growth
    added = growth.added.amounts
    short = ((used.amounts > table.allocatable) & (added > 0)).any(axis=0) & nodes
    leaving = {pod.key for pod in displaced}
    pods: list[PendingPod] = []
    for name in table.names(short):
        if len(pods) >= _MAX_LEAVING:
            break
        space = _NodeSpace(table, used, table.find(name))
        on_node = snapshot.pods_on(name)
        for key in leaving & on_node.keys():
            space.add(on_node[key].demand.amounts)
            space.add(growth.get_amounts(key))
        growing = [placed for key, placed in on_node.items() if growth.get_amounts(key) and key not in leaving]
        for placed in sorted(
            growing, key=lambda placed: (-space.compute_share(growth.get_amounts(placed.key)), placed.key)
        ):
            if not space.is_short or len(pods) >= _MAX_LEAVING:
                break
            if placed.is_fixed or not growth.get_size(placed.key).is_evictable:
                continue
            replacement = _build_replacement(placed, replacements)
            if replacement is not None:
                space.add(placed.demand.amounts)
                space.add(growth.get_amounts(placed.key))
                pods.append(replacement)
    return tuple(pods)


class _NodeSpace:
    """The free amounts of one node; below zero where more is used than is allocatable."""

    def __init__(self, table: NodeTable, used: Occupancy, number: int) -> None:
        offered, amounts = table.allocatable[:, number].tolist(), used.amounts[:, number].tolist()
        self._offered = {name: offered[row] for name, row in table.resources.items()}
        self._free = {name: offered[row] - amounts[row] for name, row in table.resources.items()}

    @property
    def is_short(self) -> bool:
        """Whether more is used than there is."""
        return min(self._free.values(), default=0) < 0

    def add(self, amounts: ResourceAmounts) -> None:
        """Free the amounts of a pod that leaves."""
        for name, amount in amounts:
            self._free[name] = self._free.get(name, 0) + amount

    def has(self, amounts: ResourceAmounts, released: ResourceAmounts) -> bool:
        """Whether amounts fit once others are released."""
        freed = dict(released)
        return all(self._free.get(name, 0) + freed.get(name, 0) >= amount for name, amount in amounts)

    def compute_share(self, amounts: ResourceAmounts) -> float:
        """The largest share of the node that these amounts are."""
        return max((amount / max(self._offered.get(name, 0), 1) for name, amount in amounts), default=0.0)


def _fits_in_place(placed: PlacedPod, space: _NodeSpace) -> bool:
    """Whether the size in the spec of a pod fits on its node, as soon as the kubelet tries again."""
    try:
        desired = Demand.of(placed.pod.spec)
    except InvalidInput:
        # Reported as a problem of the pod.
        return True
    return space.has(desired.amounts, placed.demand.amounts)


def _build_replacement(placed: PlacedPod, replacements: ReplacementDemands) -> PendingPod | None:
    try:
        demand = replacements.build_demand(placed)
    except InvalidInput:
        return None
    pod = placed.pod
    return PendingPod(
        placed.key, pod.metadata.uid, demand, pod.spec.priority or 0, is_unschedulable=True, replaces=True
    )
