"""What becomes of a new pod? Its controllers are found, asked for if nobody knows them yet, and the core decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from trellis.api.kube.pods import Pod
from trellis.base.reason import Reason, Severity
from trellis.controllers.admission.lookups import Lookups
from trellis.core.admission.decisions import NOT_GOVERNED, Decisions
from trellis.core.admission.governors import Governors
from trellis.core.admission.pods import PodVerdict
from trellis.core.boost.raising import BoostSettings, CpuCeiling
from trellis.core.model.owners import TargetRef, controller_in
from trellis.core.recommend.capping import NamespaceLimits

ADMISSION_NOT_READY = Reason(
    "AdmissionNotReady", "A new pod came before everything had been seen, and was left as it came.", Severity.WARNING
)

_NOT_READY: Final = PodVerdict(ADMISSION_NOT_READY, warnings=(ADMISSION_NOT_READY.meaning,))


class PodDecisions:
    """Decides about pods, from what is known."""

    def __init__(
        self,
        governors: Governors,
        lookups: Lookups,
        limits: Callable[[str], NamespaceLimits],
        boost: BoostSettings,
        ceiling: Callable[[Pod], CpuCeiling | None],
    ) -> None:
        self._governors = governors
        self._lookups = lookups
        self.rules = Decisions(governors, limits, boost, ceiling)
        self.is_ready = False

    def decide(self, pod: Pod, namespace: str) -> PodVerdict | Awaitable[PodVerdict]:
        """The verdict, or somebody to wait for if the pod's controller has to be asked for."""
        if not self.is_ready:
            return _NOT_READY
        # Most namespaces have nothing that sizes pods, and then nothing is worth knowing.
        if not self._governors.rules_in(namespace):
            return NOT_GOVERNED
        controller = controller_in(namespace, pod.metadata.controller)
        if controller is None:
            return NOT_GOVERNED
        owners = self._lookups.owners
        chain = owners.follow(controller)
        if chain.topmost is None and self._lookups.can_be_asked(controller):
            return self._decide_later(pod, controller)
        return self.rules.decide(pod, namespace, chain, owners)

    async def _decide_later(self, pod: Pod, controller: TargetRef) -> PodVerdict:
        chain = await self._lookups.resolve(controller)
        return self.rules.decide(pod, controller.namespace, chain, self._lookups.owners)
