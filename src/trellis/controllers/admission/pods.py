"""What becomes of a new pod? Who governs it is found, and the core is asked what it gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from trellis.api.kube.pods import Pod
from trellis.base.reason import Reason, Severity
from trellis.controllers.admission.governors import Governors
from trellis.controllers.admission.lookups import Lookups
from trellis.controllers.admission.memo import Memo
from trellis.core.admission.pods import PodVerdict, admit_pod
from trellis.core.boost.raising import BoostSettings, CpuCeiling
from trellis.core.model.owners import Chain, TargetRef, controller_in
from trellis.core.model.target_problems import TargetProblem
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor

ADMISSION_NOT_READY = Reason(
    "AdmissionNotReady", "A new pod came before everything had been seen, and was left as it came.", Severity.WARNING
)
POD_NOT_GOVERNED = Reason("PodNotGoverned", "Nothing sizes or boosts this pod.")
POD_OWNER_UNKNOWN = Reason(
    "PodOwnerUnknown", "Who controls a new pod could not be found out in time.", Severity.WARNING
)
POD_TARGET_UNUSABLE = Reason(
    "PodTargetUnusable",
    "Something sizes the controller of this pod, which cannot be used as a target.",
    Severity.WARNING,
)

_NOT_READY: Final = PodVerdict(ADMISSION_NOT_READY, warnings=(ADMISSION_NOT_READY.meaning,))
_NOT_GOVERNED: Final = PodVerdict(POD_NOT_GOVERNED)
_OWNER_UNKNOWN: Final = PodVerdict(POD_OWNER_UNKNOWN)
_TARGET_UNUSABLE: Final = PodVerdict(POD_TARGET_UNUSABLE)


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
        self._limits = limits
        self._boost = boost
        self._ceiling = ceiling
        self.memo = Memo()
        self.is_ready = False

    def decide(self, pod: Pod, namespace: str) -> PodVerdict | Awaitable[PodVerdict]:
        """The verdict, or somebody to wait for if the pod's controller has to be asked for."""
        if not self.is_ready:
            return _NOT_READY
        # Most namespaces have nothing that sizes pods, and then nothing is worth knowing.
        if not self._governors.rules_in(namespace):
            return _NOT_GOVERNED
        controller = controller_in(namespace, pod.metadata.controller)
        if controller is None:
            return _NOT_GOVERNED
        chain = self._lookups.owners.follow(controller)
        if chain.topmost is None and self._lookups.can_be_asked(controller):
            return self._decide_later(pod, controller)
        return self._decide(pod, namespace, chain)

    async def _decide_later(self, pod: Pod, controller: TargetRef) -> PodVerdict:
        return self._decide(pod, controller.namespace, await self._lookups.resolve(controller))

    def _decide(self, pod: Pod, namespace: str, chain: Chain) -> PodVerdict:
        if chain.topmost is None:
            return _OWNER_UNKNOWN if chain.trouble or chain.unasked else _NOT_GOVERNED
        governor = self._governors.find(chain.topmost, pod.metadata.labels, self._lookups.owners)
        if isinstance(governor, Governor):
            return self._admit(pod, governor, self._limits(namespace))
        return _TARGET_UNUSABLE if isinstance(governor, TargetProblem) else _NOT_GOVERNED

    def _admit(self, pod: Pod, governor: Governor, limits: NamespaceLimits) -> PodVerdict:
        ceiling = self._ceiling(pod) if self._boost.enabled and governor.vpa.boosts else None
        return self.memo.find(
            pod, governor, limits, ceiling, lambda: admit_pod(pod, governor, limits, self._boost, lambda: ceiling)
        )
