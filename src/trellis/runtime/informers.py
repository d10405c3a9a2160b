"""How does a component see its kinds? Through informers that are followed, waited for and trusted together.

informers = Informers(client, Unseen(metrics, log), draw=random.random)
pods = informers.follow(PODS, indexes={BY_NODE: on_node})
hpas = informers.follow(HPAS, dispensable=Dispensable("HPAs are not taken into account"))
following = asyncio.create_task(informers.run())
await informers.wait_until_synced()
if informers.why_not_trusted() is None: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from trellis.base.errors import KubeError, UnreadableObject
from trellis.core.model.keys import IndexFunction, T
from trellis.kube.backoff import Draw
from trellis.kube.client import Client
from trellis.kube.informer import Informer
from trellis.kube.reflector import Selection
from trellis.kube.resources import Resource
from trellis.runtime.cluster_metrics import export_informer
from trellis.runtime.metrics import Metrics
from trellis.runtime.unseen import Dispensable, Unseen

# After so long without contact what is known is no longer acted on.
_TRUSTED_SECONDS: Final = 5.0
_ABSENT_SECONDS: Final = 60.0


class Informers:
    """All informers of one component, those of a namespace if it is given one. `run` in a task of its own.

    The first kind that is followed is the one that the component is there for: no refusal of another is believed before
    it is watched.
    """

    def __init__(
        self,
        client: Client,
        unseen: Unseen,
        *,
        draw: Draw,
        namespace: str = "",
    ) -> None:
        self._client = client
        self._unseen = unseen
        self._draw = draw
        self._namespace = namespace
        self._followed: list[Informer[Any]] = []
        self._absent: list[Informer[Any]] = []

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._followed)

    def follow(
        self,
        resource: Resource[T],
        slim: Callable[[T], T] | None = None,
        *,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        namespace: str | None = None,
        field_selector: str = "",
        dispensable: Dispensable | None = None,
        served: bool = True,
    ) -> Informer[T]:
        """One more kind. One that is not served is empty until it is: it is looked for once a minute."""
        own = self._namespace if namespace is None else namespace
        informer = Informer(
            self._client,
            resource,
            draw=self._draw,
            indexes=indexes,
            selection=Selection(namespace=own if resource.namespaced else "", field_selector=field_selector),
            report=self._unseen.reporting(resource, dispensable),
            slim=slim,
        )
        if served and not self._followed:
            self._unseen.after(informer)
        (self._followed if served else self._absent).append(informer)
        return informer

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._followed:
                group.create_task(informer.run(), name=_task_name(informer))
            while self._absent:
                await asyncio.sleep(_ABSENT_SECONDS)
                for informer in await self._installed():
                    self._followed.append(informer)
                    group.create_task(informer.run(), name=_task_name(informer))

    async def _installed(self) -> list[Informer[Any]]:
        """Those of the absent that are there now."""
        try:
            served = await self._client.discover()
        except (KubeError, UnreadableObject):
            return []
        found = [each for each in self._absent if served.serves(each.resource)]
        self._absent = [each for each in self._absent if each not in found]
        return found

    async def wait_until_synced(self) -> None:
        """Return once everything has been seen that may be."""
        for informer in self._followed:
            await self._unseen.wait_for(informer)

    @property
    def synced(self) -> bool:
        """Whether everything has been seen that may be."""
        return not self._unseen.not_yet_seen(self._followed)

    def why_not_ready(self) -> str | None:
        """What probes are told while not everything has been seen."""
        unseen = self._unseen.not_yet_seen(self._followed)
        return f"not yet seen: {', '.join(unseen)}" if unseen else None

    def why_not_trusted(self) -> str | None:
        """Why nothing may be done by what is known, if so: who has lost sight of something must not change it."""
        seen = (each for each in self._followed if not self._unseen.is_lacking(each))
        return next((why for each in seen if (why := why_not_trusted(each))), None)

    def remarks(self) -> Sequence[str]:
        """What probes are told of the kinds that are done without."""
        return self._unseen.remarks()

    def export(self, metrics: Metrics) -> None:
        """Say how all of them are doing now."""
        for informer in self._followed:
            export_informer(metrics, informer)


def _task_name(informer: Informer[Any]) -> str:
    return f"watch {informer.resource.full_name}"


def why_not_trusted(informer: Informer[Any]) -> str | None:
    """Why nothing may be done by what one of them knows, if so."""
    staleness, name = informer.staleness(), informer.resource.full_name
    if not staleness.synced:
        latest = informer.incidents.latest
        return f"{name} could not be listed yet: {latest[-1].message if latest else 'no answer so far'}"
    age = staleness.contact_age or 0.0
    if not staleness.connected and age > _TRUSTED_SECONDS:
        return f"{name} could not be watched for {age:.0f} s"
    return None
