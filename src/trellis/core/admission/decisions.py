"""What becomes of a new pod whose controllers are known? Who governs it is found, and then what it gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trellis.api.kube.pods import Pod
from trellis.base.reason import Reason, Severity
from trellis.core.admission.governors import Governors
from trellis.core.admission.memo import Memo
from trellis.core.admission.pods import PodVerdict, admit_pod
from trellis.core.boost.raising import BoostSettings, CpuCeiling
from trellis.core.model.owners import Chain, Owners
from trellis.core.model.target_problems import TargetProblem
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor

POD_NOT_GOVERNED = Reason("PodNotGoverned", "Nothing sizes or boosts this pod.")
POD_OWNER_UNKNOWN = Reason(
    "PodOwnerUnknown", "Who controls a new pod could not be found out in time.", Severity.WARNING
)
POD_TARGET_UNUSABLE = Reason(
    "PodTargetUnusable",
    "Something sizes the controller of this pod, which cannot be used as a target.",
    Severity.WARNING,
)

NOT_GOVERNED: Final = PodVerdict(POD_NOT_GOVERNED)
_OWNER_UNKNOWN: Final = PodVerdict(POD_OWNER_UNKNOWN)
_TARGET_UNUSABLE: Final = PodVerdict(POD_TARGET_UNUSABLE)


class Decisions:
    """Decides about pods, from what is known."""

    def __init__(
        self,
        governors: Governors,
        limits: Callable[[str], NamespaceLimits],
        boost: BoostSettings,
        ceiling: Callable[[Pod], CpuCeiling | None],
    ) -> None:
        self._governors = governors
        self._limits = limits
        self._boost = boost
        self._ceiling = ceiling
        self.memo = Memo()

    def decide(self, pod: Pod, namespace: str, chain: Chain, owners: Owners) -> PodVerdict:
        """The verdict on a pod of that namespace; `chain` leads from its controller upwards."""
        if chain.topmost is None:
            return _OWNER_UNKNOWN if chain.trouble or chain.unasked else NOT_GOVERNED
        governor = self._governors.find(chain.topmost, pod.metadata.labels, owners)
        if isinstance(governor, Governor):
            return self._admit(pod, governor, self._limits(namespace))
        return _TARGET_UNUSABLE if isinstance(governor, TargetProblem) else NOT_GOVERNED

    def _admit(self, pod: Pod, governor: Governor, limits: NamespaceLimits) -> PodVerdict:
        ceiling = self._ceiling(pod) if self._boost.enabled and governor.vpa.boosts else None
        return self.memo.find(
            pod, governor, limits, ceiling, lambda: admit_pod(pod, governor, limits, self._boost, lambda: ceiling)
        )
