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

_Place: TypeAlias = tuple[str, str, str]  # kind, namespace and name

# Requests under way at the same time, for the sake of the API server.
_TOGETHER: Final = 16
_FOUND_SECONDS: Final = 60.0
_MISSING_SECONDS: Final = 5.0
_REFRESH_SECONDS: Final = 30.0
# So many answers are remembered of scales that are nobody's target.
_MOST_ANSWERS: Final = 5_000


class OwnerLookupSettings(msgspec.Struct, frozen=True):
    """How long a pod waits at most, in seconds."""

    deadline: float = 0.5


class _FetchedOwner(msgspec.Struct, frozen=True):
    found: ObservedObject | None
    until: float


class OwnerLookups:
    """What is known of controllers: `owners` is always up to date, `resolve` asks for what is missing."""

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
        self._fetched: dict[_Place, _FetchedOwner] = {}
        self._under_way: dict[_Place, asyncio.Task[None]] = {}
        self._together = asyncio.Semaphore(_TOGETHER)
        self._answers: dict[TargetRef, ScaleInfo] = {}
        # Set when a target is new: its scale is asked for soon.
        self._woken = new_target or asyncio.Event()
        self._finders = {kind: self._finder(kind, lookup) for kind, (_, lookup) in watched.items()}
        self.owners = Owners(self._finders, self._answers)

    async def resolve(self, start: TargetRef) -> OwnerChain:
        """The chain of controllers from this one on, with everything asked for that the deadline leaves time for."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._settings.deadline):
                while (missing := self._missing(start)) is not None:
                    await self._ask(missing)
        except TimeoutError:
            self._on_result("timeout")
        self._on_wait(clock() - began)
        return self.owners.follow(start)

    def can_be_asked(self, start: TargetRef) -> bool:
        """Whether asking could tell more about a chain that leads nowhere."""
        return self._missing(start) is not None

    async def keep_scales(
        self, targets: Callable[[], Collection[TargetRef]], on_known: Callable[[Collection[TargetRef]], None]
    ) -> None:
        """Know what the scales of these targets say, until cancelled; `on_known` is told whose were looked at."""
        while True:
            self._woken.clear()
            wanted = targets()
            asked = {*wanted, *(self._answers if len(self._answers) < _MOST_ANSWERS else ())}
            found = await self._scales.find_all(asked) if asked else {}
            while above := Owners(self._finders, found).unasked(wanted):
                found |= await self._scales.find_all(above)
            self._answers.clear()
            self._answers.update(found)
            on_known(wanted)
            self._forget(asyncio.get_running_loop().time())
            try:
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _finder(self, kind: str, lookup: ObjectLookup) -> ObjectLookup:
        def find(namespace: str, name: str) -> Any:
            found = lookup(namespace, name)
            if found is None and self._fetched:
                fetched = self._fetched.get((kind, namespace, name))
                return fetched.found if fetched is not None else None
            return found

        return find

    def _missing(self, start: TargetRef) -> TargetRef | None:
        """The first in a chain of whom nothing is known, and who has not been asked for just now."""
        at: TargetRef | None = start
        for _ in range(10):
            if at is None:
                return None
            if not at.is_well_known:
                return self.owners.follow(start).unasked
            found = self.owners.find(at)
            if found is None:
                known = self._fetched.get((at.kind, at.namespace, at.name))
                fresh = known is not None and known.until > asyncio.get_running_loop().time()
                return None if fresh or at.kind not in self._resources else at
            at = build_controller_ref(at.namespace, found.metadata.controller)
        return None

    async def _ask(self, target: TargetRef) -> None:
        """Ask, or wait for whoever asks already. Who runs out of time leaves the request to the others."""
        place = (target.kind, target.namespace, target.name)
        task = self._under_way.get(place)
        if task is None:
            asking = self._fetch(target) if target.is_well_known else self._ask_scale(target)
            task = self._under_way[place] = asyncio.create_task(asking, name=f"look up {target}")
            task.add_done_callback(lambda _: self._under_way.pop(place, None))
        await asyncio.shield(task)

    async def _ask_scale(self, target: TargetRef) -> None:
        answer = await self._scales.find(target)
        self._answers[target] = answer
        self._on_result("found" if answer.problem is None else "problem")

    async def _fetch(self, target: TargetRef) -> None:
        async with self._together:
            found: ObservedObject | None = None
            seconds = _MISSING_SECONDS
            try:
                found = await self._client.get(self._resources[target.kind], target.name, target.namespace)
                seconds = _FOUND_SECONDS
                self._on_result("found")
            except NotFound:
                self._on_result("missing")
            except (KubeError, UnreadableObject):
                self._on_result("failed")
        until = asyncio.get_running_loop().time() + seconds
        self._fetched[target.kind, target.namespace, target.name] = _FetchedOwner(found, until)

    def _forget(self, now: float) -> None:
        for place in [place for place, fetched in self._fetched.items() if fetched.until <= now]:
            del self._fetched[place]
