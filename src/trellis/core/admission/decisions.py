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

# Decisions take two kilobytes each. More templates than this are not rolled out at the same time.
_CACHED_DECISIONS: Final = 2_048
_DIGEST_BYTES: Final = 16

# The one thing that JSON does not know is the map that stands for no map at all.
_encoder: Final = msgspec.json.Encoder(enc_hook=dict)


class _CachedDecision(msgspec.Struct, frozen=True):
    """A decision, and its inputs beside the pod."""

    governor: Governor
    limits: NamespaceLimits
    ceiling: CpuCeiling | None
    decision: PodAdmissionDecision


class DecisionCache:
    """Caches decisions by a digest of their inputs."""

    def __init__(self, kept: int = _CACHED_DECISIONS) -> None:
        self._kept = kept
        self._decisions: OrderedDict[bytes, _CachedDecision] = OrderedDict()

    def __len__(self) -> int:
        return len(self._decisions)

    def find(
        self,
        pod: Pod,
        governor: Governor,
        limits: NamespaceLimits,
        ceiling: CpuCeiling | None,
        decide: Callable[[], PodAdmissionDecision],
    ) -> PodAdmissionDecision:
        """Return the cached decision, or decide and cache it."""
        claim = governor.claim
        # With its governor, because pods of two workloads may be alike as well.
        inputs = (claim.namespace, governor.kind, claim.name, pod.spec, pod.metadata.annotations)
        key = blake2b(_encoder.encode(inputs), digest_size=_DIGEST_BYTES).digest()
        cached = self._decisions.get(key)
        # A governor is another object when anything about it has changed, and so are limits.
        if cached is not None and cached.governor is governor and cached.limits is limits and cached.ceiling == ceiling:
            self._decisions.move_to_end(key)
            return cached.decision
        decision = decide()
        self._decisions[key] = _CachedDecision(governor, limits, ceiling, decision)
        if len(self._decisions) > self._kept:
            self._decisions.popitem(last=False)
        return decision


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
    """Decides about pods whose owners are known."""

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
        """Decide about a pod of that namespace. `chain` leads from its controller upwards."""
        if chain.topmost is None:
            return _OWNER_UNKNOWN if chain.problem or chain.unread_scale else NOT_GOVERNED
        governor = self._governors.find(chain.topmost, pod.metadata.labels, owners)
        if isinstance(governor, Governor):
            return self._admit(pod, governor, self._limits(namespace))
        return _TARGET_UNUSABLE if isinstance(governor, TargetProblem) else NOT_GOVERNED

    def _admit(self, pod: Pod, governor: Governor, limits: NamespaceLimits) -> PodAdmissionDecision:
        ceiling = self._ceiling(pod) if self._boost.enabled and governor.vpa.boosts else None
        return self.memo.find(
            pod, governor, limits, ceiling, lambda: admit_pod(pod, governor, limits, self._boost, lambda: ceiling)
        )
