"""Decides about a new pod whose controllers are known: finds its governor, and then its resources.

Decisions are cached. Pods of a rollout are all alike: what is read of their specs and annotations is the same to the
last byte, and with the same governor, the same LimitRanges and the same nodes so is the decision. A cache hit costs a
tenth of a decision.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec

from trellis.api.kube.pods import Pod
from trellis.base.reasons import Reason, Severity
from trellis.core.admission.governor_index import GovernorIndex
from trellis.core.admission.pods import PodAdmissionDecision, admit_pod
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling
from trellis.core.cluster.owners import OwnerChain, Owners
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor

# Verdicts of two kilobytes each. More templates than this are not rolled out at the same time.
_CACHED_DECISIONS: Final = 2_048
_DIGEST_BYTES: Final = 16

# The one thing that JSON does not know is the map that stands for no map at all.
_encoder: Final = msgspec.json.Encoder(enc_hook=dict)


class _CachedDecision(msgspec.Struct, frozen=True):
    """A verdict and what it rests on beside the pod."""

    governor: Governor
    limits: NamespaceLimits
    ceiling: CpuCeiling | None
    verdict: PodAdmissionDecision


class DecisionCache:
    """Verdicts by what they were made from."""

    def __init__(self, kept: int = _CACHED_DECISIONS) -> None:
        self._kept = kept
        self._decided: OrderedDict[bytes, _CachedDecision] = OrderedDict()

    def __len__(self) -> int:
        return len(self._decided)

    def find(
        self,
        pod: Pod,
        governor: Governor,
        limits: NamespaceLimits,
        ceiling: CpuCeiling | None,
        decide: Callable[[], PodAdmissionDecision],
    ) -> PodAdmissionDecision:
        """The verdict, decided only if it is not known."""
        claim = governor.claim
        # With its governor, because pods of two workloads may be alike as well.
        alike = (claim.namespace, governor.kind, claim.name, pod.spec, pod.metadata.annotations)
        key = blake2b(_encoder.encode(alike), digest_size=_DIGEST_BYTES).digest()
        known = self._decided.get(key)
        # A governor is another object when anything about it has changed, and so are limits.
        if known is not None and known.governor is governor and known.limits is limits and known.ceiling == ceiling:
            self._decided.move_to_end(key)
            return known.verdict
        verdict = decide()
        self._decided[key] = _CachedDecision(governor, limits, ceiling, verdict)
        if len(self._decided) > self._kept:
            self._decided.popitem(last=False)
        return verdict


POD_NOT_GOVERNED = Reason("PodNotGoverned", "Nothing sizes or boosts this pod.")
POD_OWNER_UNKNOWN = Reason(
    "PodOwnerUnknown", "Who controls a new pod could not be found out in time.", Severity.WARNING
)
POD_TARGET_UNUSABLE = Reason(
    "PodTargetUnusable",
    "Something sizes the controller of this pod, which cannot be used as a target.",
    Severity.WARNING,
)

NOT_GOVERNED: Final = PodAdmissionDecision(POD_NOT_GOVERNED)
_OWNER_UNKNOWN: Final = PodAdmissionDecision(POD_OWNER_UNKNOWN)
_TARGET_UNUSABLE: Final = PodAdmissionDecision(POD_TARGET_UNUSABLE)


class PodAdmitter:
    """Decides about pods, from what is known."""

    def __init__(
        self,
        governors: GovernorIndex,
        limits: Callable[[str], NamespaceLimits],
        boost: BoostSettings,
        ceiling: Callable[[Pod], CpuCeiling | None],
    ) -> None:
        self._governors = governors
        self._limits = limits
        self._boost = boost
        self._ceiling = ceiling
        self.memo = DecisionCache()

    def decide(self, pod: Pod, namespace: str, chain: OwnerChain, owners: Owners) -> PodAdmissionDecision:
        """The verdict on a pod of that namespace; `chain` leads from its controller upwards."""
        if chain.topmost is None:
            return _OWNER_UNKNOWN if chain.trouble or chain.unasked else NOT_GOVERNED
        governor = self._governors.find(chain.topmost, pod.metadata.labels, owners)
        if isinstance(governor, Governor):
            return self._admit(pod, governor, self._limits(namespace))
        return _TARGET_UNUSABLE if isinstance(governor, TargetProblem) else NOT_GOVERNED

    def _admit(self, pod: Pod, governor: Governor, limits: NamespaceLimits) -> PodAdmissionDecision:
        ceiling = self._ceiling(pod) if self._boost.enabled and governor.vpa.boosts else None
        return self.memo.find(
            pod, governor, limits, ceiling, lambda: admit_pod(pod, governor, limits, self._boost, lambda: ceiling)
        )
