"""Shadow recommenders: they estimate the same rows, and their estimates are never applied.

A VerticalPodAutoscaler names them in an annotation:

    metadata:
      annotations:
        trellis.x-k8s.io/shadow-recommenders: seasonal,window
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from trellis.core.recommend.amounts import MIDDLE, RESOURCES
from trellis.core.recommend.protocol import NO_EXPLANATION, Explanations
from trellis.core.recommend.state.tables import ServedVpa
from trellis.core.usage.columns import FloatColumn, IntColumn

SHADOW_RECOMMENDERS: Final = "trellis.x-k8s.io/shadow-recommenders"


class ShadowEstimates(msgspec.Struct, frozen=True):
    """What one recommender would have estimated, by container number: `bounds` is (bound, resource, container).

    NaN where it could not say. `failures` is what went wrong with it, by VPA number.
    """

    numbers: IntColumn
    bounds: FloatColumn
    explanation: Explanations = NO_EXPLANATION
    failures: Mapping[int, str] = {}

    @classmethod
    def failed(cls, numbers: IntColumn, failures: Mapping[int, str]) -> ShadowEstimates:
        """The result of a shadow recommender that failed."""
        return cls(numbers, np.full((3, len(RESOURCES), len(numbers)), np.nan), failures=failures)

    @property
    def failure(self) -> str:
        """The first failure; empty without any."""
        return next(iter(self.failures.values()), "")


class MissingShadow(NamedTuple):
    """A recommender that a VPA wants as a shadow, and that does not run here."""

    recommender: str
    namespace: str
    vpa: str


def read_shadow_names(annotations: Mapping[str, str], served_by: str) -> tuple[str, ...]:
    """The names in the annotation, each once, without that of the recommender itself."""
    text = annotations.get(SHADOW_RECOMMENDERS, "")
    names = dict.fromkeys(name.strip() for name in text.split(","))
    return tuple(name for name in names if name and name != served_by)


class ShadowTable:
    """Which VPAs, by number, want which shadows."""

    def __init__(self) -> None:
        self._shadow_names: dict[int, tuple[ServedVpa, tuple[str, ...]]] = {}

    def put(self, number: int, vpa: ServedVpa) -> None:
        """A VPA that is new, or was changed."""
        self.drop(number)
        names = read_shadow_names(vpa.annotations, vpa.recommender) if vpa.annotations else ()
        if names:
            self._shadow_names[number] = vpa, names

    def drop(self, number: int) -> None:
        """A VPA that is gone."""
        self._shadow_names.pop(number, None)

    def group_by_recommender(self, hosted: Collection[str]) -> dict[str, list[int]]:
        """The VPAs that want each of the recommenders there are."""
        shadowed: dict[str, list[int]] = {}
        for number, (_, names) in self._shadow_names.items():
            for name in names:
                if name in hosted:
                    shadowed.setdefault(name, []).append(number)
        return shadowed

    def find_missing(self, hosted: Collection[str]) -> list[MissingShadow]:
        """The shadow recommenders that VPAs name and that do not run here."""
        return [
            MissingShadow(name, vpa.namespace, vpa.name)
            for vpa, names in self._shadow_names.values()
            for name in names
            if name not in hosted
        ]


def compare_shadows(
    shadows: Mapping[str, ShadowEstimates], bounds: FloatColumn
) -> Iterator[tuple[str, str, FloatColumn]]:
    """By how much each shadow's targets lie above those of the serving recommender, as a fraction of them.

    For each recommender and resource, over the containers for which both could say.
    """
    for name, shadow in shadows.items():
        own = bounds[MIDDLE][:, shadow.numbers]
        for resource, theirs, ours in zip(RESOURCES, shadow.bounds[MIDDLE], own, strict=True):
            both = ~np.isnan(theirs) & (ours > 0)
            yield name, resource, theirs[both] / ours[both] - 1.0
