"""JSON patches that set resources and annotations of pods.

Upstream's operations in upstream's order, and `test` operations as guards for running pods. A slice cannot tell an
absent map from an empty one, so that an empty one is made anew: `add` replaces what is there, and there is nothing in
it. Within a container CPU comes before memory and requests before limits, always.

A patch sets only what differs; the same amount written otherwise (`1000m`, `1`) is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from trellis.api.kube.pods import ResourceRequirements
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity

_ANNOTATIONS: Final = "/metadata/annotations"
_NOTHING_WRITTEN: Final = ResourceRequirements()


class PatchOp(msgspec.Struct, frozen=True):
    """One operation of RFC 6902. A `remove` has no value, and none is written; upstream writes null."""

    op: str
    path: str
    value: Any = msgspec.UNSET


class ResourceChange(msgspec.Struct, frozen=True):
    """What one container is to have, in millicores and bytes; what is absent stays. `written` is its spec as it is."""

    field: str
    index: int
    container: str
    written: ResourceRequirements
    requests: Mapping[str, int]
    limits: Mapping[str, int]

    @property
    def path(self) -> str:
        """Where the container stands in its pod."""
        return f"/spec/{self.field}/{self.index}"


def build_resource_ops(changes: Iterable[ResourceChange]) -> list[PatchOp]:
    """The operations that set the resources, container by container."""
    return [op for change in changes for op in _container_ops(change)]


def build_annotation_ops(
    existing: Mapping[str, str] | None, values: Mapping[str, str], removed: Collection[str] = ()
) -> list[PatchOp]:
    """The operations that set and remove annotations, in the order given; none for what is so already."""
    annotations = existing or {}
    stale = [key for key in dict.fromkeys(removed) if key in annotations and key not in values]
    ops = [PatchOp("remove", f"{_ANNOTATIONS}/{escape_json_pointer(key)}") for key in stale]
    if values and not annotations:
        ops.append(PatchOp("add", _ANNOTATIONS, {}))
    for key, value in values.items():
        if annotations.get(key) != value:
            ops.append(PatchOp("add", f"{_ANNOTATIONS}/{escape_json_pointer(key)}", value))
    return ops


def build_guarded_ops(uid: str, changes: Sequence[ResourceChange]) -> list[PatchOp]:
    """The changes of a pod that runs, behind tests that it still is the pod they were made for.

    Tested are its identity, the name of every container that changes, and every amount that is replaced, in the words
    in which it was read: a change by another client wins. Without a change there are no operations.
    """
    ops = build_resource_ops(changes)
    if not ops:
        return []
    replaced = {op.path for op in ops}
    guards = [PatchOp("test", "/metadata/uid", uid)]
    for change in changes:
        tests = [test for test in _value_tests(change) if test.path in replaced]
        if tests or any(path.startswith(f"{change.path}/") for path in replaced):
            guards += [PatchOp("test", f"{change.path}/name", change.container), *tests]
    return guards + ops


# Pods of one workload are given the same few amounts again and again.
@lru_cache(maxsize=4096)
def format_resource_amount(resource: str, amount: int) -> str:
    """An amount as the recommender writes it: CPU as `25m` or `2`, memory as `250Mi` or in plain bytes."""
    return str(Quantity.from_milli(amount) if resource == "cpu" else Quantity.from_units(amount, binary=True))


def escape_json_pointer(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _container_ops(change: ResourceChange) -> list[PatchOp]:
    written, path = change.written, f"{change.path}/resources"
    ops = _map_ops(f"{path}/requests", change.requests, written.requests)
    ops += _map_ops(f"{path}/limits", change.limits, written.limits)
    # A container may have neither requests nor limits and still claim devices, which must not be lost.
    if ops and written == _NOTHING_WRITTEN:
        ops.insert(0, PatchOp("add", path, {}))
    return ops


def _map_ops(path: str, amounts: Mapping[str, int], written: Mapping[str, str]) -> list[PatchOp]:
    ops = []
    for resource in sorted(amounts):
        amount, text = amounts[resource], written.get(resource)
        if text is None or _amount(resource, text) != amount:
            ops.append(
                PatchOp("add", f"{path}/{escape_json_pointer(resource)}", format_resource_amount(resource, amount))
            )
    if ops and not written:
        ops.insert(0, PatchOp("add", path, {}))
    return ops


@lru_cache(maxsize=4096)
def _amount(resource: str, text: str) -> int | None:
    """The amount of a quantity in millicores or bytes; None if it is no whole number of these."""
    try:
        quantity = Quantity.parse(text)
    except InvalidQuantity:
        return None
    if resource == "cpu":
        return quantity.milli if quantity.is_whole_milli else None
    return quantity.units if quantity.is_whole_unit else None


def _value_tests(change: ResourceChange) -> Iterator[PatchOp]:
    for field, present in (("requests", change.written.requests), ("limits", change.written.limits)):
        for resource in sorted(present):
            yield PatchOp("test", f"{change.path}/resources/{field}/{escape_json_pointer(resource)}", present[resource])
