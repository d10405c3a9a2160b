"""Reads the target of a Buffer: how many pods it has, which they are, and from which template they are created.

A well-known workload is watched. A kind that another package knows is read and given to it. Of any other kind the scale
is read, which has no template. A package announces the kinds it knows as entry points; the object named
there is called without arguments and returns a `TargetKind`:

    [project.entry-points."trellis.buffer_targets"]
    game-server-set = "trellis_game_servers:GameServerSets"

One that cannot be loaded is logged and left out, and so is a second one for the same kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.base.errors import InvalidSelector, KubeError, NotFound, UnreadableObject
from trellis.base.selectors import Selector
from trellis.controllers.buffers.state import TargetState
from trellis.core.buffers import TargetKind, TargetReading
from trellis.core.buffers.pod_summaries import CountedTarget, count_replicas, read_parallelism
from trellis.core.buffers.target_kinds import (
    TARGET_UNREADABLE,
    build_not_scalable,
    check_target_selector,
    count_target_pods,
    read_scale_selector,
)
from trellis.core.cluster.owners import ScaleInfo, TargetRef, describe_missing
from trellis.core.cluster.target_problems import (
    TARGET_NOT_FOUND,
    TARGET_NOT_SCALABLE,
    TargetProblem,
    build_target_problem,
    classify_error,
)
from trellis.core.cluster.target_selectors import read_selector
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.scales import LookupTimes, ScalableKinds
from trellis.kube.transport.requests import build_get
from trellis.kube.watch.informer import Informer
from trellis.runtime.telemetry.logs import Logger

ENTRY_POINTS: Final = "trellis.buffer_targets"

# Without the version: a reference may have any version of the kind.
GroupKind: TypeAlias = tuple[str, str]

_log: Final = Logger("trellis.buffers")


def load_target_kinds(announced: Iterable[EntryPoint] | None = None) -> dict[GroupKind, TargetKind]:
    """The kinds that can be read, in the order of their announcements' names."""
    entries = entry_points(group=ENTRY_POINTS) if announced is None else announced
    kinds: dict[GroupKind, TargetKind] = {}
    for entry in sorted(entries, key=lambda entry_point: (entry_point.name, entry_point.value)):
        try:
            kind = entry.load()()
        except Exception as error:  # noqa: BLE001 - a plugin that fails must not affect other Buffers
            _log.error("loading a target kind failed", name=entry.name, value=entry.value, error=error)
            continue
        if not isinstance(kind, TargetKind) or not all((kind.api_version, kind.kind, kind.plural)):
            _log.error("an entry point is not a target kind; it is ignored", name=entry.name, value=entry.value)
            continue
        about = group_kind(kind.api_version, kind.kind)
        if about in kinds:
            _log.error(
                "a target kind is installed twice; the first is used",
                name=entry.name,
                value=entry.value,
                kind=kind.kind,
            )
            continue
        _log.info("loaded a target kind", name=entry.name, kind=kind.kind, api_version=kind.api_version)
        kinds[about] = kind
    return kinds


def group_kind(api_version: str, kind: str) -> GroupKind:
    """The group of an `apiVersion`, and the kind."""
    return api_version.rpartition("/")[0], kind


# A kind that is not served may be installed at any moment, together with the Buffer.
_RETRY_SECONDS: Final = 10.0


class TargetDescription(msgspec.Struct, frozen=True):
    """The replicas and the selector of a target, with its template, or the resource to read it from.

    `source` is the UID and the generation of the target. `scale` leads to the owners of kinds without an informer.
    """

    replicas: int | None
    selector: Selector
    source: tuple[str, int]
    resource: Resource[Any] | None = None
    template: Mapping[str, Any] | None = None
    scale: ScaleInfo | None = None


class TargetReader:
    """Reads the replicas and the selector of targets."""

    def __init__(
        self, client: Client, workloads: Mapping[str, Informer[Any]], kinds: Mapping[GroupKind, TargetKind]
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._kinds = kinds
        self._scalable = ScalableKinds(client, LookupTimes(retry=_RETRY_SECONDS))

    async def count(self, target: TargetRef, state: TargetState) -> TargetDescription | TargetProblem:
        """The description of a target, or the problem with it."""
        try:
            description = await self._count(target, state)
        except NotFound as error:
            return build_target_problem(classify_error(error), describe_missing(target))
        except (KubeError, UnreadableObject) as error:
            return build_target_problem(classify_error(error), str(error))
        except InvalidSelector as error:
            return build_target_problem(classify_error(error), f"the selector of {target}: {error}")
        if isinstance(description, TargetProblem):
            return description
        return check_target_selector(target, description.selector) or description

    async def _count(self, target: TargetRef, state: TargetState) -> TargetDescription | TargetProblem:
        kind = self._kinds.get(group_kind(target.api_version, target.kind))
        if kind is not None:
            return await self._read(target, kind)
        informer = self._workloads.get(target.kind) if target.is_well_known else None
        if informer is not None:
            return _read_watched(target, informer, state)
        return await self._scale(target)

    async def _read(self, target: TargetRef, kind: TargetKind) -> TargetDescription | TargetProblem:
        group, _, version = kind.api_version.rpartition("/")
        resource = Resource(group, version, kind.plural, kind.kind, True, KubeObject)
        response = await self._client.send(build_get(resource, target.name, target.namespace))
        document = msgspec.json.decode(response.body, type=dict[str, Any])
        try:
            reading = _read_by(kind, document)
        except Exception as error:  # noqa: BLE001 - a plugin that fails affects one Buffer only
            _log.warning("reading a target failed", target=target, error=error)
            return build_target_problem(TARGET_UNREADABLE, f"{target.kind} {target.name}: {error!r}")
        metadata = document.get("metadata", {})
        return TargetDescription(
            reading.replicas,
            reading.selector,
            (metadata.get("uid", ""), metadata.get("generation", 0)),
            template=reading.template,
            scale=ScaleInfo(str(reading.selector)),
        )

    async def _scale(self, target: TargetRef) -> TargetDescription | TargetProblem:
        result = await self._scalable.read(target)
        if isinstance(result, TargetProblem):
            return build_not_scalable(target.kind) if result.reason is TARGET_NOT_SCALABLE else result
        scale = result.scale
        text = scale.status.selector
        info = ScaleInfo(text, scale.metadata.controller)
        selector = read_scale_selector(text)
        return TargetDescription(scale.status.replicas, selector, (scale.metadata.uid, 0), scale=info)


def _read_by(kind: TargetKind, document: Mapping[str, Any]) -> TargetReading:
    """The reading of an object by a plugin, converted because the types of a plugin are not checked."""
    return msgspec.convert(msgspec.structs.asdict(kind.read(document)), TargetReading)


def _read_watched(target: TargetRef, informer: Informer[Any], state: TargetState) -> TargetDescription | TargetProblem:
    workload: CountedTarget | None = informer.get(target.namespace, target.name)
    if workload is None:
        return build_target_problem(TARGET_NOT_FOUND, describe_missing(target))
    if state.selection is None or state.selection[0] is not workload:
        state.selection = (workload, read_selector(workload))
    count = count_target_pods(target.kind, count_replicas(workload), read_parallelism(workload))
    read = (workload.metadata.uid, workload.metadata.generation)
    return TargetDescription(count, state.selection[1], read, resource=informer.resource)
