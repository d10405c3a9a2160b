"""What does the Hvpa controller see of the cluster? Hvpas, the autoscalers beside them, and pods.

Targets are not watched: they may be of any kind that has a scale, and that is asked for when it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from trellis.api.hvpa import Hvpa
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.core.hvpa.viewing import HvpaPod
from trellis.core.model.keys import BY_NAMESPACE, in_namespace
from trellis.kube.backoff import Draw
from trellis.kube.client import Client
from trellis.kube.informer import Informer
from trellis.kube.reflector import Selection
from trellis.kube.resources import HPAS, HVPAS, PODS, VPAS, Resource
from trellis.kube.served import Served
from trellis.runtime.unseen import Unseen

# After so long without contact what is known is no longer acted on.
_TRUSTED_SECONDS: Final = 10.0


HVPA_PODS: Final = PODS.read_as(HvpaPod)


class Watching:
    """All informers. `run` in a task of its own."""

    def __init__(
        self, client: Client, settings: HvpaControllerSettings, served: Served, *, draw: Draw, unseen: Unseen
    ) -> None:
        self._unseen = unseen

        def informer(resource: Resource[Any], slim: Callable[[Any], Any] | None = None) -> Informer[Any]:
            return Informer(
                client,
                resource,
                draw=draw,
                indexes={BY_NAMESPACE: in_namespace},
                selection=Selection(namespace=settings.scope.vpa_object_namespace),
                report=unseen.reporting(resource, None),
                slim=slim,
            )

        self.hvpas: Informer[Hvpa] = informer(HVPAS)
        unseen.after(self.hvpas)
        self.pods: Informer[HvpaPod] = informer(HVPA_PODS)
        self.hpas: Informer[HorizontalPodAutoscaler] = informer(HPAS)
        # Without the definition there are no VPAs, and an HPA alone may be enough.
        self.vpas: Informer[VerticalPodAutoscaler] | None = informer(VPAS) if served.serves(VPAS) else None

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All that are followed."""
        always = (self.hvpas, self.pods, self.hpas)
        return always if self.vpas is None else (*always, self.vpas)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run(), name=f"watch {informer.resource.full_name}")

    async def wait_until_synced(self) -> None:
        """Return once everything has been seen."""
        for informer in self.informers:
            await self._unseen.wait_for(informer)

    def unseen(self) -> list[str]:
        """The kinds of which not everything has been seen."""
        return self._unseen.not_yet_seen(self.informers)

    def why_not_trusted(self) -> str | None:
        """Why nothing may be done by what is known, if so: who has lost sight of pods must not scale them."""
        for informer in self.informers:
            staleness = informer.staleness()
            if not staleness.synced:
                return f"{informer.resource.full_name} could not be listed yet"
            age = staleness.contact_age or 0.0
            if not staleness.connected and age > _TRUSTED_SECONDS:
                return f"{informer.resource.full_name} could not be watched for {age:.0f} s"
        return None

    def hvpas_in(self, namespace: str) -> tuple[Hvpa, ...]:
        """The Hvpas of a namespace."""
        return tuple(self.hvpas.snapshot().by(BY_NAMESPACE, namespace))

    def hpas_in(self, namespace: str) -> tuple[HorizontalPodAutoscaler, ...]:
        """The HPAs of a namespace."""
        return tuple(self.hpas.snapshot().by(BY_NAMESPACE, namespace))

    def vpas_in(self, namespace: str) -> tuple[VerticalPodAutoscaler, ...]:
        """The VPAs of a namespace."""
        return tuple(self.vpas.snapshot().by(BY_NAMESPACE, namespace)) if self.vpas is not None else ()

    def pods_in(self, namespace: str) -> tuple[HvpaPod, ...]:
        """The pods of a namespace."""
        return tuple(self.pods.snapshot().by(BY_NAMESPACE, namespace))
