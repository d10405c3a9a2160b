"""Reads what the annotations of a group declare: its limits, its options, its price.

The annotations are those of Cluster Autoscaler, and two of Trellis. One that cannot be read costs its own group alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from trellis.base.durations import parse_duration
from trellis.base.errors import InvalidDuration
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.nodes.node_groups import GroupOptions
from trellis.providers.cluster_api.objects import GroupScope, MachineGroup

MACHINE_GROUP_INVALID = Reason(
    "MachineGroupInvalid", "A group of Machines of Cluster API has a field that cannot be used.", Severity.ERROR
)

# On a MachineDeployment, MachineSet or MachinePool: money for an hour of a node, and the priority of the group.
PRICE: Final = "nodes.trellis.x-k8s.io/price"
PRIORITY: Final = "nodes.trellis.x-k8s.io/priority"

_OPTIONS: Final = "autoscaling-options-"


class InvalidMachineGroup(Exception):
    """A field of a group that cannot be used; the reason names the object, the field and the rule."""

    def __init__(self, group: MachineGroup, field: str, rule: str) -> None:
        self.reason = DetailedReason(MACHINE_GROUP_INVALID, f"{group.name}: {field}: {rule}")
        super().__init__(str(self.reason))


class Declaration(msgspec.Struct, frozen=True):
    """What the annotations of a group say. `price` is None if they name none."""

    min_size: int
    max_size: int
    options: GroupOptions
    price: float | None
    priority: int


def read_declaration(group: MachineGroup, scope: GroupScope) -> Declaration:
    """What a group declares; raises `InvalidMachineGroup`."""
    annotations = group.written.metadata.annotations
    min_size, max_size = _read_size(group, annotations, scope.min_size), _read_size(group, annotations, scope.max_size)
    if min_size > max_size:
        raise InvalidMachineGroup(
            group, f"annotation {scope.min_size}", f"is {min_size}, and must be at most the maximum of {max_size}"
        )
    if group.written.spec.replicas is None:
        raise InvalidMachineGroup(group, "spec.replicas", "must be set, which a webhook of Cluster API does")
    price, priority = _read_number(group, annotations, PRICE), _read_number(group, annotations, PRIORITY)
    return Declaration(min_size, max_size, _read_options(group, scope), price, int(priority or 0))


def _read_size(group: MachineGroup, annotations: Mapping[str, str], key: str) -> int:
    text = annotations.get(key)
    if text is None or not text.strip().isdecimal():
        found = "missing" if text is None else f'"{text}"'
        raise InvalidMachineGroup(group, f"annotation {key}", f"must be a number of machines, but is {found}")
    return int(text)


def _read_options(group: MachineGroup, scope: GroupScope) -> GroupOptions:
    annotations, prefix = group.written.metadata.annotations, f"{scope.group}/{_OPTIONS}"

    def read_seconds(name: str) -> float | None:
        text = annotations.get(prefix + name)
        if text is None:
            return None
        try:
            seconds = parse_duration(text).total_seconds()
        except InvalidDuration as error:
            raise InvalidMachineGroup(group, f"annotation {prefix}{name}", str(error)) from error
        if seconds < 0:
            raise InvalidMachineGroup(group, f"annotation {prefix}{name}", f'must not be negative, but is "{text}"')
        return seconds

    def read_share(name: str) -> float | None:
        share = _read_number(group, annotations, prefix + name)
        if share is not None and not 0 <= share <= 1:
            raise InvalidMachineGroup(group, f"annotation {prefix}{name}", f"must be 0 to 1, but is {share:g}")
        return share

    return GroupOptions(
        scale_down_utilization_threshold=read_share("scaledownutilizationthreshold"),
        scale_down_gpu_utilization_threshold=read_share("scaledowngpuutilizationthreshold"),
        scale_down_unneeded_seconds=read_seconds("scaledownunneededtime"),
        scale_down_unready_seconds=read_seconds("scaledownunreadytime"),
        max_node_provision_seconds=read_seconds("maxnodeprovisiontime"),
    )


def _read_number(group: MachineGroup, annotations: Mapping[str, str], key: str) -> float | None:
    text = annotations.get(key)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidMachineGroup(group, f"annotation {key}", f'must be a number, but is "{text}"')
    return number
