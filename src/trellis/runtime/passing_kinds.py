"""Which informers run now? All whose kinds are there: definitions come and go while a component runs.

A kind that is not there is looked for once a minute, and followed from then on in the best version that there is. One
that a list or a watch does not find any more is asked after. If the API server serves it no longer, it is empty and
nobody waits for it; that it was not found once proves nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.kube.client import Client
from trellis.kube.incidents import Incident
from trellis.kube.informer import Informer
from trellis.kube.resources import Resource
from trellis.kube.served import Served
from trellis.runtime.unseen import Unseen

_ABSENT_SECONDS: Final = 60.0
# So often a kind is asked after that was not found, though it should be there.
_DOUBT_SECONDS: Final = 5.0


class PassingKinds:
    """All informers of a component: those that are `followed`, and those whose kind is `absent`."""

    def __init__(self, client: Client, unseen: Unseen) -> None:
        self.followed: list[Informer[Any]] = []
        self.absent: list[Informer[Any]] = []
        self._client = client
        self._unseen = unseen
        # Of those that may come and go, the versions that will do, the best one first.
        self._versions: dict[Informer[Any], Sequence[Resource[Any]]] = {}
        # For how long a kind must not be served before it counts as gone, and since when it has not been found.
        self._patience: dict[Informer[Any], float] = {}
        self._doubted: dict[Informer[Any], float] = {}
        self._doubt = asyncio.Event()
        self._tasks: dict[Informer[Any], asyncio.Task[None]] = {}

    def add(
        self,
        informer: Informer[Any],
        served: bool | None,
        versions: Sequence[Resource[Any]],
        gone_after: float = 0.0,
    ) -> None:
        """One more; it may come and go if it is known to be served or not."""
        if served is not None:
            self._versions[informer] = versions
            self._patience[informer] = gone_after
        (self.absent if served is False else self.followed).append(informer)

    def note(self, informer: Informer[Any], incident: Incident) -> None:
        """Something went wrong with an informer."""
        if isinstance(incident.error, NotFound) and informer in self._versions and informer not in self._doubted:
            self._doubted[informer] = asyncio.get_running_loop().time()
            self._doubt.set()

    def sees(self, informer: Informer[Any]) -> bool:
        """Whether the kind is there, and all of it has been seen."""
        return informer in self.followed and informer.synced and informer not in self._doubted

    async def run(self) -> None:
        """Let them run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.followed:
                self._begin(informer, group)
            while self._versions:
                await self._wait_for_doubt()
                try:
                    served = await self._client.discover()
                except (KubeError, UnreadableObject):
                    continue
                for informer in tuple(self._doubted):
                    await self._judge(informer, served)
                for informer in tuple(self.absent):
                    self._look_for(informer, served, group)

    def _begin(self, informer: Informer[Any], group: asyncio.TaskGroup) -> None:
        name = f"watch {informer.resource.full_name}"
        self._tasks[informer] = group.create_task(informer.run(), name=name)

    async def _wait_for_doubt(self) -> None:
        """Until a kind is not found any more, or it is time to ask again."""
        seconds = _DOUBT_SECONDS if self._doubted else _ABSENT_SECONDS if self.absent else None
        try:
            async with asyncio.timeout(seconds):
                await self._doubt.wait()
        except TimeoutError:
            pass
        self._doubt.clear()

    async def _judge(self, informer: Informer[Any], served: Served) -> None:
        """Give up a kind that is not there any more. A group whose server does not answer proves nothing."""
        missed = asyncio.get_running_loop().time() - self._doubted[informer]
        if informer.staleness().connected:
            del self._doubted[informer]
        elif missed < self._patience[informer]:
            return
        elif not served.serves(informer.resource) and informer.resource.api_version not in served.stale:
            del self._doubted[informer]
            task = self._tasks.pop(informer)
            task.cancel()
            await asyncio.wait({task})
            self.followed.remove(informer)
            self.absent.append(informer)
            self._unseen.went(informer.resource)
            await informer.empty()

    def _look_for(self, informer: Informer[Any], served: Served, group: asyncio.TaskGroup) -> None:
        """Follow a kind that is there now."""
        found = next((each for each in self._versions[informer] if served.serves(each)), None)
        if found is not None:
            informer.resource = found
            self.absent.remove(informer)
            self.followed.append(informer)
            self._unseen.came(found)
            self._begin(informer, group)
