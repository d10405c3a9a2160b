"""What sizes are recommended for pods of these shapes? Pods of a workload are alike, so that each is made once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from trellis.core.recommend.capping import Advice, NamespaceLimits, cap_for_pod
from trellis.core.resize.eligibility import Gap, Part, gap_of
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import PodShape
from trellis.core.sizing.sizes import PodSize, size_pod

# A workload in the middle of a change has pods of two or three shapes. With many more, looking costs as much as making.
_REMEMBERED: Final = 8

_T = TypeVar("_T")


class _Known(Generic[_T]):
    """The last few answers, by what was asked; shapes can be compared, but not hashed."""

    def __init__(self) -> None:
        self._known: list[tuple[PodShape, frozenset[Part], _T]] = []

    def find(self, shape: PodShape, spared: frozenset[Part]) -> _T | None:
        for known, left_out, answer in self._known:
            if left_out == spared and (known is shape or known == shape):
                return answer
        return None

    def keep(self, shape: PodShape, spared: frozenset[Part], answer: _T) -> _T:
        self._known.append((shape, spared, answer))
        del self._known[:-_REMEMBERED]
        return answer


class Sizes:
    """The sizes of one workload's pods, for as long as one plan takes. `spared` is always left alone."""

    def __init__(self, governor: Governor, limits: NamespaceLimits) -> None:
        self._governor, self.limits = governor, limits
        self._gaps: _Known[Gap] = _Known()
        self._in_place: _Known[PodSize] = _Known()

    def gap(self, shape: PodShape, spared: frozenset[Part]) -> Gap:
        """How far a pod is from what a new one would get."""
        return self._gaps.find(shape, spared) or self._gaps.keep(shape, spared, self._made(shape, spared))

    def in_place(self, shape: PodShape, spared: frozenset[Part]) -> PodSize:
        """What the pod itself can be resized to."""
        known = self._in_place.find(shape, spared)
        if known is not None:
            return known
        advice = _without(self._governor.advice, spared)
        size = size_pod(shape, advice, self._governor.vpa, self.limits, keep_qos=True)
        return self._in_place.keep(shape, spared, size)

    def _made(self, shape: PodShape, spared: frozenset[Part]) -> Gap:
        vpa, advice = self._governor.vpa, _without(self._governor.advice, spared)
        capped = cap_for_pod(advice, shape.containers, vpa, self.limits)
        # What pods have as a whole changes what LimitRanges mean for a size, and not for bounds.
        size = size_pod(shape, advice, vpa, self.limits, capped=None if shape.pod_limits else capped)
        return gap_of(shape, size, {each.container: each for each in capped})


def _without(advice: Sequence[Advice], spared: Collection[Part]) -> Sequence[Advice]:
    """What is recommended, less what is left alone."""
    if not spared:
        return advice
    return [
        msgspec.structs.replace(
            each, target={name: amount for name, amount in each.target.items() if (each.container, name) not in spared}
        )
        for each in advice
    ]
