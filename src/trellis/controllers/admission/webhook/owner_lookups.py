"""Finds the controllers of a pod that are not in the cache yet.

A ReplicaSet and its first pod are created within milliseconds, and a watch may be that much behind. The controller is
then read, once for all pods that wait for it, and no pod waits longer than the deadline. A controller that does not
exist is not read again for some seconds; one that does is kept until the watch has brought it.

Kinds that are not watched show their owners and their selector through their scale. The scales of targets are read
before any pod is created, and again every 30 seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.kube.observed_workloads import ObservedObject
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.core.cluster.owners import ObjectLookup, OwnerChain, Owners, ScaleInfo, TargetRef, build_controller_ref
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.scales import ScaleLookups

_ObjectKey: TypeAlias = tuple[str, str, str]  # kind, namespace and name

# Concurrent requests to the API server.
_MAX_CONCURRENT: Final = 16
_FETCHED_SECONDS: Final = 60.0
_MISSING_SECONDS: Final = 5.0
_REFRESH_SECONDS: Final = 30.0
# Scales of objects that are not a target are refreshed up to this number of answers.
_MAX_SCALES: Final = 5_000


class OwnerLookupSettings(msgspec.Struct, frozen=True):
    """The longest time that a pod waits for its controllers, in seconds."""

    deadline: float = 0.5


class _FetchedOwner(msgspec.Struct, frozen=True):
    owner: ObservedObject | None
    until: float


class OwnerLookups:
    """Controllers of pods. `owners` reads the caches; `resolve` first fetches what they lack."""

    def __init__(
        self,
        client: Client,
        watched: dict[str, tuple[Resource[Any], ObjectLookup]],
        scales: ScaleLookups,
        *,
        settings: OwnerLookupSettings = OwnerLookupSettings(),  # noqa: B008 - frozen
        new_target: asyncio.Event | None = None,
        on_result: Callable[[str], None] = lambda _result: None,
        on_wait: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self._client = client
        self._resources = {kind: resource for kind, (resource, _) in watched.items()}
        self._scales = scales
        self._settings = settings
        self._on_result = on_result
        self._on_wait = on_wait
        self._fetched: dict[_ObjectKey, _FetchedOwner] = {}
        self._in_flight: dict[_ObjectKey, asyncio.Task[None]] = {}
        self._request_slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self._scale_infos: dict[TargetRef, ScaleInfo] = {}
        # Set when a target is new: its scale is fetched soon.
        self._woken = new_target or asyncio.Event()
        self._lookups = {kind: self._fallback_lookup(kind, lookup) for kind, (_, lookup) in watched.items()}
        self.owners = Owners(self._lookups, self._scale_infos)

    async def resolve(self, start: TargetRef) -> OwnerChain:
        """Return the chain of controllers from this one on, after fetching what is missing within the deadline."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._settings.deadline):
                while (missing := self._missing(start)) is not None:
                    await self._fetch_shared(missing)
        except TimeoutError:
            self._on_result("timeout")
        self._on_wait(clock() - began)
        return self.owners.follow(start)

    def can_be_completed(self, start: TargetRef) -> bool:
        """Whether a fetch could complete a chain that has no topmost controller."""
        return self._missing(start) is not None

    async def keep_scales(
        self, targets: Callable[[], Collection[TargetRef]], on_refreshed: Callable[[Collection[TargetRef]], None]
    ) -> None:
        """Refresh the scales of these targets until cancelled. `on_known` is called with the targets each time."""
        while True:
            self._woken.clear()
            current_targets = targets()
            refreshed = {*current_targets, *(self._scale_infos if len(self._scale_infos) < _MAX_SCALES else ())}
            scales = await self._scales.find_all(refreshed) if refreshed else {}
            while unread := Owners(self._lookups, scales).find_unread_scales(current_targets):
                scales |= await self._scales.find_all(unread)
            self._scale_infos.clear()
            self._scale_infos.update(scales)
            on_refreshed(current_targets)
            self._drop_expired(asyncio.get_running_loop().time())
            try:
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _fallback_lookup(self, kind: str, lookup: ObjectLookup) -> ObjectLookup:
        def find(namespace: str, name: str) -> Any:
            watched = lookup(namespace, name)
            if watched is None and self._fetched:
                fetched = self._fetched.get((kind, namespace, name))
                return fetched.owner if fetched is not None else None
            return watched

        return find

    def _missing(self, start: TargetRef) -> TargetRef | None:
        """Find the first controller of a chain that is in no cache and was not fetched just now."""
        controller: TargetRef | None = start
        for _ in range(10):
            if controller is None:
                return None
            if not controller.is_well_known:
                return self.owners.follow(start).unread_scale
            owner = self.owners.find(controller)
            if owner is None:
                fetched = self._fetched.get((controller.kind, controller.namespace, controller.name))
                is_fresh = fetched is not None and fetched.until > asyncio.get_running_loop().time()
                return None if is_fresh or controller.kind not in self._resources else controller
            controller = build_controller_ref(controller.namespace, owner.metadata.controller)
        return None

    async def _fetch_shared(self, target: TargetRef) -> None:
        """Fetch, or join the fetch under way. A caller that times out leaves it running for the others."""
        key = (target.kind, target.namespace, target.name)
        task = self._in_flight.get(key)
        if task is None:
            fetch = self._fetch(target) if target.is_well_known else self._fetch_scale(target)
            task = self._in_flight[key] = asyncio.create_task(fetch, name=f"look up {target}")
            task.add_done_callback(lambda _: self._in_flight.pop(key, None))
        await asyncio.shield(task)

    async def _fetch_scale(self, target: TargetRef) -> None:
        scale = await self._scales.find(target)
        self._scale_infos[target] = scale
        self._on_result("found" if scale.problem is None else "problem")

    async def _fetch(self, target: TargetRef) -> None:
        async with self._request_slots:
            owner: ObservedObject | None = None
            retention = _MISSING_SECONDS
            try:
                owner = await self._client.get(self._resources[target.kind], target.name, target.namespace)
                retention = _FETCHED_SECONDS
                self._on_result("found")
            except NotFound:
                self._on_result("missing")
            except (KubeError, UnreadableObject):
                self._on_result("failed")
        until = asyncio.get_running_loop().time() + retention
        self._fetched[target.kind, target.namespace, target.name] = _FetchedOwner(owner, until)

    def _drop_expired(self, now: float) -> None:
        for key in [key for key, fetched in self._fetched.items() if fetched.until <= now]:
            del self._fetched[key]
