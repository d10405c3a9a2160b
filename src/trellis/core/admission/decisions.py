"""Decides about a new pod whose controllers are known: finds its governor, and then its resources.

The VPA or Hvpa is found by the pod's topmost controller, however many objects there are. Governors are compiled when an
object changes, not when a pod comes. The labels that a target selects are resolved when the first of its pods comes,
and cached until the target changes.

Decisions are cached. Pods of a rollout are all alike: what is read of their specs and annotations is the same to the
last byte, and with the same governor, the same LimitRanges and the same nodes so is the decision. A cache hit costs a
tenth of a decision.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.pods import Pod
from trellis.api.kube.slices import Labels
from trellis.base.reasons import Reason, Severity
from trellis.base.selectors import Selector
from trellis.core.admission.pod_patches import PodAdmissionDecision, admit_pod
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling
from trellis.core.cluster.owners import OwnerChain, Owners, TargetRef
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.cluster.target_selectors import resolve_selector
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor

# Namespace, kind and name. The version of a target is not in it: people write any that the kind ever had.
_TargetKey: TypeAlias = tuple[str, str, str]
# Kind, namespace and name of the object itself.
_GovernorKey: TypeAlias = tuple[str, str, str]


class GovernorIndex:
    """All VPAs and Hvpas that size or boost pods, by their target."""

    def __init__(self) -> None:
        self._objects: dict[_GovernorKey, Governor] = {}
        self._by_target: dict[_TargetKey, tuple[Governor, ...]] = {}
        self._namespaces: Counter[str] = Counter()
        self._selectors: dict[_TargetKey, Selector] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def count_by_kind(self) -> Counter[str]:
        """How many there are of each kind."""
        return Counter(kind for kind, _, _ in self._objects)

    def put(self, kind: str, namespace: str, name: str, governor: Governor | None) -> None:
        """Add or replace the governor of an object; None removes it."""
        old = self._objects.pop((kind, namespace, name), None)
        if old is not None and governor is not None and self._replace(old, governor):
            self._objects[kind, namespace, name] = governor
            return
        if old is not None:
            self._remove(old)
        if governor is not None:
            self._objects[kind, namespace, name] = governor
            target = _key(governor.claim.target)
            rivals = (*self._by_target.get(target, ()), governor)
            # The first that fits governs.
            self._by_target[target] = tuple(sorted(rivals, key=lambda rival: rival.claim.seniority))
            self._namespaces[namespace] += 1

    def governs_namespace(self, namespace: str) -> bool:
        """Whether anything there is governed."""
        return namespace in self._namespaces

    def find(self, topmost: TargetRef, labels: Labels, owners: Owners) -> Governor | TargetProblem | None:
        """Find the governor of a pod with these labels and topmost controller, or why its target cannot be used."""
        target = _key(topmost)
        claimants = self._by_target.get(target)
        if claimants is None:
            return None
        selector = self._selectors.get(target)
        if selector is None:
            resolved = resolve_selector(topmost, owners)
            if isinstance(resolved, TargetProblem):
                return resolved
            selector = self._selectors[target] = resolved
        # All of them claim the same target, and so the same labels.
        return claimants[0] if selector.matches(labels) else None

    def drop_selector(self, kind: str, namespace: str, name: str) -> None:
        """Drop the cached selector of a workload that has changed."""
        self._selectors.pop((namespace, kind, name), None)

    def list_scaled_targets(self) -> Collection[TargetRef]:
        """Return the targets whose selector is known from their scale alone."""
        claims = (governors[0].claim.target for governors in self._by_target.values())
        return {target for target in claims if not target.is_well_known and target.name}

    def _replace(self, old: Governor, new: Governor) -> bool:
        """Replace in place the only governor of an unchanged target, if it is that: nearly every change is."""
        target = _key(old.claim.target)
        if new.claim != old.claim or len(self._by_target[target]) > 1:
            return False
        self._by_target[target] = (new,)
        return True

    def _remove(self, old: Governor) -> None:
        target = _key(old.claim.target)
        remaining = tuple(governor for governor in self._by_target[target] if governor is not old)
        if remaining:
            self._by_target[target] = remaining
        else:
            del self._by_target[target]
            self._selectors.pop(target, None)
        namespace = target[0]
        self._namespaces[namespace] -= 1
        if not self._namespaces[namespace]:
            del self._namespaces[namespace]


def _key(target: TargetRef) -> _TargetKey:
    return target.namespace, target.kind, target.name


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

    def __init__(self, capacity: int = _CACHED_DECISIONS) -> None:
        self._capacity = capacity
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
        if len(self._decisions) > self._capacity:
            self._decisions.popitem(last=False)
        return decision


POD_NOT_GOVERNED = Reason("PodNotGoverned", "No VPA or Hvpa governs this pod.")
POD_OWNER_UNKNOWN = Reason(
    "PodOwnerUnknown", "The owner of a new pod could not be looked up in time.", Severity.WARNING
)
POD_TARGET_UNUSABLE = Reason(
    "PodTargetUnusable",
    "A VPA or Hvpa targets the controller of this pod, which is not a valid target.",
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
        self.cache = DecisionCache()

    def decide(self, pod: Pod, namespace: str, chain: OwnerChain, owners: Owners) -> PodAdmissionDecision:
        """Decide about a pod of that namespace. `chain` leads from its controller upwards."""
        if chain.topmost is None:
            return _OWNER_UNKNOWN if chain.problem or chain.unread_scale else NOT_GOVERNED
        governor = self._governors.find(chain.topmost, pod.metadata.labels, owners)
        if isinstance(governor, Governor):
            return self._admit(pod, governor, self._limits(namespace))
        return _TARGET_UNUSABLE if isinstance(governor, TargetProblem) else NOT_GOVERNED

    def _admit(self, pod: Pod, governor: Governor, limits: NamespaceLimits) -> PodAdmissionDecision:
        ceiling = self._ceiling(pod) if self._boost.enabled and governor.vpa.can_boost else None
        return self.cache.find(
            pod, governor, limits, ceiling, lambda: admit_pod(pod, governor, limits, self._boost, lambda: ceiling)
        )
