"""What was decided for a pod just like this one?

Pods of a rollout are all alike: what is read of their specs and annotations is the same to the last byte, and with the
same governor, the same LimitRanges and the same nodes so is the verdict. It is then found for a tenth of what it takes
to decide.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec

from trellis.api.kube.pods import Pod
from trellis.core.admission.pods import PodVerdict
from trellis.core.boost.raising import CpuCeiling
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor

# Verdicts of two kilobytes each. More templates than this are not rolled out at the same time.
_KEPT: Final = 2_048
_DIGEST_BYTES: Final = 16

# The one thing that JSON does not know is the map that stands for no map at all.
_encoder: Final = msgspec.json.Encoder(enc_hook=dict)


class _Decided(msgspec.Struct, frozen=True):
    """A verdict and what it rests on beside the pod."""

    governor: Governor
    limits: NamespaceLimits
    ceiling: CpuCeiling | None
    verdict: PodVerdict


class Memo:
    """Verdicts by what they were made from."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._decided: OrderedDict[bytes, _Decided] = OrderedDict()

    def __len__(self) -> int:
        return len(self._decided)

    def find(
        self,
        pod: Pod,
        governor: Governor,
        limits: NamespaceLimits,
        ceiling: CpuCeiling | None,
        decide: Callable[[], PodVerdict],
    ) -> PodVerdict:
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
        self._decided[key] = _Decided(governor, limits, ceiling, verdict)
        if len(self._decided) > self._kept:
            self._decided.popitem(last=False)
        return verdict
