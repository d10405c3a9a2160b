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
from trellis.kube.write.actions import Action, CreateObject, DeleteObject, PatchObject, Target, build_target
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import json_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.logs import Logger

KEPT_VERSION: Final = "trellis.x-k8s.io/kept-version"
_KEPT_SUFFIX: Final = "-unreadable"
# Checkpoints that are written in every pass, however long that takes.
_FIRST_FEW: Final = 20

Serves = Callable[[str, str], bool]


class _CheckpointOwner(KubeObject, frozen=True):
    """A checkpoint without its histograms: enough to know its VPA."""

    spec: CheckpointSpec = CheckpointSpec()


_CHECKPOINT_OWNERS: Final = Resource(
    CHECKPOINTS.group, CHECKPOINTS.version, CHECKPOINTS.plural, CHECKPOINTS.kind, True, _CheckpointOwner
)


class CheckpointStore:
    """Reads, writes and removes checkpoints. A checkpoint that is known to exist is patched, another one created.

    Those in namespaces that are not covered belong to other replicas.
    """

    def __init__(
        self, client: Client, writer: Writer, log: Logger, covers: Callable[[str], bool] = lambda _namespace: True
    ) -> None:
        self._client = client
        self._writer = writer
        self._log = log
        self._covers = covers
        self._stored: dict[RowKey, str] = {}
        self._keys: dict[tuple[str, str], RowKey] = {}
        self._uncopied: set[tuple[str, str]] = set()
        self.unreadable: set[tuple[str, str]] = set()

    async def load(self, namespace: str, serves: Serves, now: float) -> list[SavedRow]:
        """The history of every served VPA, of one namespace or of all; checkpoints of other VPAs are skipped."""
        rows: list[SavedRow] = []
        async for page in self._client.list_pages(CHECKPOINTS, namespace):
            for rejected in page.rejected:
                # Its VPA cannot be read either, so it is kept whether served or not.
                if self._covers(rejected.namespace):
                    await self._copy_unreadable(rejected.namespace, rejected.name, rejected.message)
            for item in page.items:
                if KEPT_FROM_ANNOTATION in item.metadata.annotations or not serves(
                    item.metadata.namespace, item.spec.vpa_object_name
                ):
                    continue
                await self._read(item, rows, now)
            # A page of 500 takes some milliseconds: leases and probes run in between.
            await asyncio.sleep(0)
        return rows

    async def _read(self, item: VerticalPodAutoscalerCheckpoint, rows: list[SavedRow], now: float) -> None:
        try:
            saved = read_checkpoint(item, now)
        except InvalidCheckpoint as error:
            await self._copy_unreadable(item.metadata.namespace, item.metadata.name, str(error))
            return
        self._add_stored(saved.key, item.metadata.name)
        rows.append(saved)

    async def _copy_unreadable(self, namespace: str, name: str, problem: str) -> None:
        """Copy a checkpoint that cannot be read, once, before its name is used again."""
        self._log.error("an invalid checkpoint is kept as a copy", namespace=namespace, name=name, why=problem)
        self.unreadable.add((namespace, name))
        self._uncopied.add((namespace, name))
        await self._create_copy(namespace, name)

    async def _create_copy(self, namespace: str, name: str) -> bool:
        """Create the copy; whether the name may be used again."""
        try:
            response = await self._client.send(build_get(CHECKPOINTS, name, namespace))
        except NotFound:
            self._uncopied.discard((namespace, name))
            return True
        copy = _build_unreadable_copy(msgspec.json.decode(response.body, type=dict[str, Any]), name)
        outcome = await self._writer.write(CreateObject(Target(CHECKPOINTS, copy["metadata"]["name"], namespace), copy))
        if outcome.applied or outcome.result is Result.CONFLICT:
            self._uncopied.discard((namespace, name))
        return (namespace, name) not in self._uncopied

    async def write(self, rows: Sequence[SavedRow], budget: float, seconds: float) -> list[RowKey]:
        """Write rows, as far as the time allows; the keys of those that were written.

        After `budget` seconds no further write is started, except for the first few: something must be written however
        slow the server is. After `seconds`, writes in flight are cancelled.
        """
        written: set[RowKey] = set()
        waiting = iter(enumerate(rows))
        clock = asyncio.get_running_loop().time
        end = clock() + budget

        async def work() -> None:
            for number, row in waiting:
                if number >= _FIRST_FEW and clock() >= end:
                    return
                if await self._write_row(row):
                    written.add(row.key)

        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as workers:
                for _ in range(min(self._writer.concurrency, len(rows))):
                    workers.create_task(work())
        except TimeoutError:
            self._log.warning(
                "writing checkpoints reached its time limit; the remaining ones are written in the next passes",
                written=len(written),
                due=len(rows),
            )
        return list(written)

    async def _write_row(self, row: SavedRow) -> bool:
        target = self._find_target(row.key)
        if (target.namespace, target.name) in self._uncopied and not await self._create_copy(
            target.namespace, target.name
        ):
            return False
        first, second = _build_create, _build_replace
        if row.key in self._stored:
            first, second = second, first
        outcome = await self._writer.write(first(row, target))
        if outcome.result in (Result.GONE, Result.CONFLICT):
            outcome = await self._writer.write(second(row, target))
        if outcome.applied:
            self._add_stored(row.key, target.name)
            self.unreadable.discard((target.namespace, target.name))
        return outcome.applied

    def _add_stored(self, key: RowKey, name: str) -> None:
        self._stored[key] = name
        self._keys[key.namespace, name] = key

    def _forget(self, key: RowKey) -> None:
        name = self._stored.pop(key, None)
        if name is not None:
            self._keys.pop((key.namespace, name), None)

    def _find_target(self, key: RowKey) -> Target:
        """The checkpoint of a row. VPA `a` with container `b-c` and VPA `a-b` with `c` get different names."""
        name = self._stored.get(key) or build_checkpoint_name(key.vpa, key.container)
        if self._keys.get((key.namespace, name), key) != key:
            name = f"{name[:244]}-{zlib.crc32('/'.join(key).encode()):08x}"
        return Target(CHECKPOINTS, name, key.namespace)

    async def remove(self, keys: Iterable[RowKey]) -> None:
        """Remove the checkpoints of containers that are no longer there."""
        stored = {key: self._find_target(key) for key in keys if key in self._stored}
        for key in stored:
            self._forget(key)
        await self._writer.write_all(map(DeleteObject, stored.values()))

    async def remove_orphans(self, namespace: str, covers: Callable[[str], bool], exists: Serves) -> int:
        """Remove the checkpoints of VPAs that are gone, served here or not; the result is how many.

        `exists` says whether a VPA is in the cache. One that is not is read before its checkpoints are removed, because
        it may have been created a moment ago.
        """
        orphans: list[_CheckpointOwner] = []
        async for page in self._client.list_pages(_CHECKPOINT_OWNERS, namespace):
            orphans += [
                checkpoint
                for checkpoint in page.items
                if covers(checkpoint.metadata.namespace)
                and not exists(checkpoint.metadata.namespace, checkpoint.spec.vpa_object_name)
            ]
        is_deleted = {
            vpa: await self._is_deleted(*vpa)
            for vpa in {(checkpoint.metadata.namespace, checkpoint.spec.vpa_object_name) for checkpoint in orphans}
        }
        removable = [
            checkpoint
            for checkpoint in orphans
            if is_deleted[checkpoint.metadata.namespace, checkpoint.spec.vpa_object_name]
        ]
        for checkpoint in removable:
            key = RowKey(checkpoint.metadata.namespace, checkpoint.spec.vpa_object_name, checkpoint.spec.container_name)
            self._forget(key)
        outcomes = await self._writer.write_all(
            DeleteObject(build_target(CHECKPOINTS, checkpoint)) for checkpoint in removable
        )
        return sum(outcome.applied for outcome in outcomes)

    async def _is_deleted(self, namespace: str, vpa: str) -> bool:
        if not vpa:
            return False
        try:
            await self._client.send(build_get(VPAS, vpa, namespace))
        except NotFound:
            return True
        except KubeError as error:
            self._log.warning("reading a VPA failed; its checkpoints are kept", vpa=vpa, why=error)
        return False


def _build_unreadable_copy(document: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy under another name, with a version that upstream does not read as the history of a VPA."""
    status = document.get("status") if isinstance(document.get("status"), dict) else {}
    metadata = {
        "name": name[: 253 - len(_KEPT_SUFFIX)] + _KEPT_SUFFIX,
        "namespace": document["metadata"]["namespace"],
        "annotations": {KEPT_FROM_ANNOTATION: name, KEPT_VERSION: str((status or {}).get("version", ""))},
    }
    return {**document, "metadata": metadata, "status": {**(status or {}), "version": "unreadable"}}


def _build_create(row: SavedRow, target: Target) -> Action:
    document = {
        "apiVersion": CHECKPOINTS.api_version,
        "kind": CHECKPOINTS.kind,
        "metadata": {"name": target.name, "namespace": target.namespace},
        "spec": _build_spec(row),
        "status": build_checkpoint_status(row),
    }
    return CreateObject(target, document)


def _build_replace(row: SavedRow, target: Target) -> Action:
    # Not a merge: histogram bins that are empty now must go.
    operations = [
        {"op": "add", "path": "/spec", "value": _build_spec(row)},
        {"op": "add", "path": "/status", "value": build_checkpoint_status(row)},
    ]
    return PatchObject(target, json_patch(operations))


def _build_spec(row: SavedRow) -> dict[str, str]:
    return {"vpaObjectName": row.key.vpa, "containerName": row.key.container}
