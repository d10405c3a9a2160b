"""Reads, writes and deletes checkpoints, one object for each container of a VPA.

They are upstream's objects under upstream's names, so that either recommender can take over from the other. A
checkpoint that cannot be read is copied before its name is written again, so that nothing is lost.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from trellis.api.kinds.checkpoint import CheckpointSpec, VerticalPodAutoscalerCheckpoint
from trellis.api.kube.meta import KubeObject
from trellis.base.errors import InvalidCheckpoint, KubeError, NotFound
from trellis.core.usage.checkpoints.format import (
    KEPT_FROM_ANNOTATION,
    SavedRow,
    build_checkpoint_name,
    build_checkpoint_status,
    read_checkpoint,
)
from trellis.core.usage.columns import RowKey
from trellis.kube.client import Client
from trellis.kube.resources import CHECKPOINTS, VPAS, Resource
from trellis.kube.transport.requests import build_get
from trellis.kube.write.actions import Action, CreateObject, DeleteObject, PatchObject, Target, target_of
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import json_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.logs import Logger

KEPT_VERSION: Final = "trellis.x-k8s.io/kept-version"
_KEPT_SUFFIX: Final = "-unreadable"
# So many are written in every pass, however long that takes.
_FIRST_FEW: Final = 20

Serves = Callable[[str, str], bool]


class _CheckpointOwner(KubeObject, frozen=True):
    """A checkpoint without its histograms: enough to know whose it is."""

    spec: CheckpointSpec = CheckpointSpec()


_CHECKPOINT_OWNERS: Final = Resource(
    CHECKPOINTS.group, CHECKPOINTS.version, CHECKPOINTS.plural, CHECKPOINTS.kind, True, _CheckpointOwner
)


class CheckpointStore:
    """Reads, writes and removes checkpoints. What it knows to exist is patched, everything else created."""

    def __init__(self, client: Client, writer: Writer, log: Logger) -> None:
        self._client = client
        self._writer = writer
        self._log = log
        self._stored: dict[RowKey, str] = {}
        self._whose: dict[tuple[str, str], RowKey] = {}
        self._in_danger: set[tuple[str, str]] = set()
        self.unreadable: set[tuple[str, str]] = set()

    async def load(self, namespace: str, serves: Serves, now: float) -> list[SavedRow]:
        """The history of every VPA that is served, of one namespace or of all; others are not looked at."""
        found: list[SavedRow] = []
        async for page in self._client.list_pages(CHECKPOINTS, namespace):
            for rejected in page.rejected:
                # Whose it is cannot be read either, so it is kept as well.
                await self._keep_aside(rejected.namespace, rejected.name, rejected.message)
            for item in page.items:
                if KEPT_FROM_ANNOTATION in item.metadata.annotations or not serves(
                    item.metadata.namespace, item.spec.vpa_object_name
                ):
                    continue
                await self._read(item, found, now)
            # A page of 500 takes some milliseconds: leases and probes get their turn in between.
            await asyncio.sleep(0)
        return found

    async def _read(self, item: VerticalPodAutoscalerCheckpoint, found: list[SavedRow], now: float) -> None:
        try:
            saved = read_checkpoint(item, now)
        except InvalidCheckpoint as error:
            await self._keep_aside(item.metadata.namespace, item.metadata.name, str(error))
            return
        self._keep_in_mind(saved.key, item.metadata.name)
        found.append(saved)

    async def _keep_aside(self, namespace: str, name: str, why: str) -> None:
        """Copy a checkpoint that cannot be read, once, before its name is used again."""
        self._log.error("checkpoint cannot be read and is kept aside", namespace=namespace, name=name, why=why)
        self.unreadable.add((namespace, name))
        self._in_danger.add((namespace, name))
        await self._rescue(namespace, name)

    async def _rescue(self, namespace: str, name: str) -> bool:
        """Make the copy; whether the name may be used again."""
        try:
            response = await self._client.send(build_get(CHECKPOINTS, name, namespace))
        except NotFound:
            self._in_danger.discard((namespace, name))
            return True
        copy = _unreadable_copy(msgspec.json.decode(response.body, type=dict[str, Any]), name)
        outcome = await self._writer.write(CreateObject(Target(CHECKPOINTS, copy["metadata"]["name"], namespace), copy))
        if outcome.applied or outcome.result is Result.CONFLICT:
            self._in_danger.discard((namespace, name))
        return (namespace, name) not in self._in_danger

    async def write(self, rows: Sequence[SavedRow], budget: float, seconds: float) -> list[RowKey]:
        """Write these, as far as the time allows; the answer is which were written.

        After the budget no further one is begun, but for the first few: something must be written however slow the
        server is. After so many seconds those under way are given up.
        """
        done: set[RowKey] = set()
        waiting = iter(enumerate(rows))
        clock = asyncio.get_running_loop().time
        end = clock() + budget

        async def work() -> None:
            for number, row in waiting:
                if number >= _FIRST_FEW and clock() >= end:
                    return
                if await self._write_one(row):
                    done.add(row.key)

        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as workers:
                for _ in range(min(self._writer.concurrency, len(rows))):
                    workers.create_task(work())
        except TimeoutError:
            self._log.warning(
                "checkpoints took too long; the rest has its turn later", written=len(done), due=len(rows)
            )
        return list(done)

    async def _write_one(self, row: SavedRow) -> bool:
        target = self._target(row.key)
        if (target.namespace, target.name) in self._in_danger and not await self._rescue(target.namespace, target.name):
            return False
        first, second = _create(row, target), _replace(row, target)
        if row.key in self._stored:
            first, second = second, first
        outcome = await self._writer.write(first)
        if outcome.result in (Result.GONE, Result.CONFLICT):
            outcome = await self._writer.write(second)
        if outcome.applied:
            self._keep_in_mind(row.key, target.name)
            self.unreadable.discard((target.namespace, target.name))
        return outcome.applied

    def _keep_in_mind(self, key: RowKey, name: str) -> None:
        self._stored[key] = name
        self._whose[key.namespace, name] = key

    def _forget(self, key: RowKey) -> None:
        name = self._stored.pop(key, None)
        if name is not None:
            self._whose.pop((key.namespace, name), None)

    def _target(self, key: RowKey) -> Target:
        """Where a row is kept. VPA `a` with container `b-c` and VPA `a-b` with `c` would share a name: not here."""
        name = self._stored.get(key) or build_checkpoint_name(key.vpa, key.container)
        if self._whose.get((key.namespace, name), key) != key:
            name = f"{name[:244]}-{zlib.crc32('/'.join(key).encode()):08x}"
        return Target(CHECKPOINTS, name, key.namespace)

    async def remove(self, keys: Iterable[RowKey]) -> None:
        """Remove the checkpoints of containers that are no longer there."""
        stored = {key: self._target(key) for key in keys if key in self._stored}
        for key in stored:
            self._forget(key)
        await self._writer.write_all(map(DeleteObject, stored.values()))

    async def remove_orphans(self, namespace: str, covers: Callable[[str], bool], known: Serves) -> int:
        """Remove the checkpoints of VPAs that are gone, served here or not; the result is how many.

        `known` says whether a VPA exists as far as is known. One that is not known is asked for before anything of it
        is removed, because it may have been created a moment ago.
        """
        orphans: list[_CheckpointOwner] = []
        async for page in self._client.list_pages(_CHECKPOINT_OWNERS, namespace):
            orphans += [
                each
                for each in page.items
                if covers(each.metadata.namespace) and not known(each.metadata.namespace, each.spec.vpa_object_name)
            ]
        gone = {
            whose: await self._is_gone(*whose)
            for whose in {(each.metadata.namespace, each.spec.vpa_object_name) for each in orphans}
        }
        doomed = [each for each in orphans if gone[each.metadata.namespace, each.spec.vpa_object_name]]
        for each in doomed:
            key = RowKey(each.metadata.namespace, each.spec.vpa_object_name, each.spec.container_name)
            self._forget(key)
        outcomes = await self._writer.write_all(DeleteObject(target_of(CHECKPOINTS, each)) for each in doomed)
        return sum(outcome.applied for outcome in outcomes)

    async def _is_gone(self, namespace: str, vpa: str) -> bool:
        if not vpa:
            return False
        try:
            await self._client.send(build_get(VPAS, vpa, namespace))
        except NotFound:
            return True
        except KubeError as error:
            self._log.warning("cannot say whether a VPA exists; its checkpoints stay", vpa=vpa, why=error)
        return False


def _unreadable_copy(document: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy under another name, with a version that upstream does not read as the history of a VPA."""
    status = document.get("status") if isinstance(document.get("status"), dict) else {}
    metadata = {
        "name": name[: 253 - len(_KEPT_SUFFIX)] + _KEPT_SUFFIX,
        "namespace": document["metadata"]["namespace"],
        "annotations": {KEPT_FROM_ANNOTATION: name, KEPT_VERSION: str((status or {}).get("version", ""))},
    }
    return {**document, "metadata": metadata, "status": {**(status or {}), "version": "unreadable"}}


def _create(row: SavedRow, target: Target) -> Action:
    document = {
        "apiVersion": CHECKPOINTS.api_version,
        "kind": CHECKPOINTS.kind,
        "metadata": {"name": target.name, "namespace": target.namespace},
        "spec": _spec(row),
        "status": build_checkpoint_status(row),
    }
    return CreateObject(target, document)


def _replace(row: SavedRow, target: Target) -> Action:
    # Not a merge: histogram bins that are empty now must go.
    operations = [
        {"op": "add", "path": "/spec", "value": _spec(row)},
        {"op": "add", "path": "/status", "value": build_checkpoint_status(row)},
    ]
    return PatchObject(target, json_patch(operations))


def _spec(row: SavedRow) -> dict[str, str]:
    return {"vpaObjectName": row.key.vpa, "containerName": row.key.container}
