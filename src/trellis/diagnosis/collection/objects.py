"""Collects autoscaling objects by their conditions, and freezes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from trellis.api.kube.meta import Condition, KubeObject
from trellis.api.kube.slices import Slice
from trellis.core.resize.freeze import CLUSTER_FREEZE_CONFIG_MAP, FREEZE_ANNOTATION, find_freeze
from trellis.diagnosis.checks.freezes import FreezeFacts
from trellis.diagnosis.checks.objects import BUFFER, HVPA_KIND, PLURALS, VPA, ConditionFact, ObjectFact, ObjectsByKind
from trellis.diagnosis.collection.reader import FactReader
from trellis.diagnosis.installation import Installation
from trellis.diagnosis.unread import Unread
from trellis.kube.resources import BUFFERS, CONFIG_MAPS, HVPAS, NAMESPACES, VPAS, Resource
from trellis.runtime.manager.settings import UPDATER
from trellis.sources.cluster.components import NAMESPACE


class UpdatePolicySlice(Slice, frozen=True):
    """The update mode of a VPA."""

    update_mode: str = ""


class AutoscalerSpecSlice(Slice, frozen=True):
    """The update policy of a VPA; other kinds have none."""

    update_policy: UpdatePolicySlice = UpdatePolicySlice()


class ConditionedStatus(Slice, frozen=True):
    """The conditions of an object."""

    conditions: tuple[Condition, ...] = ()


class AutoscalingObject(KubeObject, frozen=True):
    """A VPA, Hvpa or Buffer with its conditions."""

    spec: AutoscalerSpecSlice = AutoscalerSpecSlice()
    status: ConditionedStatus = ConditionedStatus()


_RESOURCES: Final[Mapping[str, Resource[AutoscalingObject]]] = {
    VPA: VPAS.read_as(AutoscalingObject),
    HVPA_KIND: HVPAS.read_as(AutoscalingObject),
    BUFFER: BUFFERS.read_as(AutoscalingObject),
}
_DEFAULT_MODE: Final = "Recreate"


async def collect_objects(
    reader: FactReader, now: float, own_namespace: str
) -> tuple[ObjectsByKind, tuple[Unread, ...]]:
    """All objects by kind; and kinds of which only those of the user's own namespace may be listed."""
    listed = await asyncio.gather(*(_list(reader, kind, now, own_namespace) for kind in _RESOURCES))
    objects = {kind: found for kind, (found, _) in zip(_RESOURCES, listed, strict=True)}
    return objects, tuple(unlisted for _, unlisted in listed if unlisted is not None)


async def _list(
    reader: FactReader, kind: str, now: float, own_namespace: str
) -> tuple[tuple[ObjectFact, ...] | Unread | None, Unread | None]:
    resource = _RESOURCES[kind]
    items = await reader.list(resource, what=f"{PLURALS[kind]} in all namespaces")
    if isinstance(items, Unread) and items.is_forbidden and own_namespace:
        own = await reader.list(resource, own_namespace)
        if not isinstance(own, Unread):
            return _build_facts(kind, own, now), items
    if isinstance(items, Unread):
        # The API server does not know a kind whose CRD is missing.
        return None if items.is_absent else items, None
    return _build_facts(kind, items, now), None


def _build_facts(kind: str, items: Iterable[AutoscalingObject], now: float) -> tuple[ObjectFact, ...]:
    return tuple(_build_fact(kind, item, now) for item in items)


def _build_fact(kind: str, item: AutoscalingObject, now: float) -> ObjectFact:
    metadata = item.metadata
    created = metadata.creation_timestamp
    return ObjectFact(
        metadata.namespace,
        metadata.name,
        {
            condition.type: ConditionFact(condition.status, condition.reason, condition.message)
            for condition in item.status.conditions
        },
        (item.spec.update_policy.update_mode or _DEFAULT_MODE) if kind == VPA else "",
        find_freeze(None, {}, metadata.annotations) is not None,
        now - created.timestamp() if created is not None else 0.0,
    )


async def collect_freezes(reader: FactReader, installation: Installation, objects: ObjectsByKind) -> FreezeFacts:
    """The switch of the cluster, at the place that the updater's flag names, and annotations."""
    updaters = [workload for workload in installation.workloads if UPDATER in workload.components]
    named = next(filter(None, (workload.find_flag("freeze-config-map", UPDATER) for workload in updaters)), "")
    place = named or f"{NAMESPACE}/{CLUSTER_FREEZE_CONFIG_MAP}"
    namespace, _, name = place.partition("/")
    switch = await reader.get(CONFIG_MAPS, name, namespace, what=f"freeze switch {place}")
    namespaces = await reader.list(NAMESPACES, what="freezes of namespaces")
    frozen = sum(item.is_frozen for listed in objects.values() if isinstance(listed, tuple) for item in listed)
    created = None if switch is None or isinstance(switch, Unread) else switch.metadata.creation_timestamp
    return FreezeFacts(
        place,
        switch if isinstance(switch, Unread) else find_freeze(None if switch is None else switch.data, {}, {}),
        created.timestamp() if created is not None else 0.0,
        namespaces
        if isinstance(namespaces, Unread)
        else tuple(
            (item.metadata.name, freeze)
            for item in namespaces
            if FREEZE_ANNOTATION in item.metadata.annotations
            and (freeze := find_freeze(None, item.metadata.annotations, {})) is not None
        ),
        frozen,
    )
