"""Taints of nodes and tolerations of pods.

The rules of `Toleration.ToleratesTaint` in Kubernetes 1.36. Only `NoSchedule` and `NoExecute` keep a pod away. `Lt` and
`Gt` compare whole numbers since 1.35, where the feature gate is on; other API servers accept no pod that uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from trellis.api.kube.nodes import Taint
from trellis.api.kube.placement import Toleration
from trellis.core.usage.columns import BoolColumn

_HARD: Final = ("NoSchedule", "NoExecute")
SOFT: Final = "PreferNoSchedule"
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


class HardTaint(NamedTuple):
    """A taint that keeps pods away."""

    key: str
    value: str
    effect: str


TaintSet: TypeAlias = tuple[HardTaint, ...]

# The taint that `spec.unschedulable` amounts to: a pod that tolerates it is placed all the same.
CORDONED: Final = HardTaint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def select_hard_taints(taints: Iterable[Taint]) -> TaintSet:
    """The taints that restrict placement, in one order for all nodes."""
    return tuple(sorted(HardTaint(taint.key, taint.value, taint.effect) for taint in taints if taint.effect in _HARD))


def select_hard_tolerations(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """The tolerations of such taints, without their duration."""
    return tuple(
        Toleration(toleration.key, toleration.operator, toleration.value, toleration.effect)
        for toleration in tolerations
        if toleration.effect in ("", *_HARD)
    )


def count_intolerable_soft_taints(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> int:
    """How many `PreferNoSchedule` taints are not tolerated: the scheduler prefers nodes with fewer."""
    tolerations = [toleration for toleration in tolerations if toleration.effect in ("", SOFT)]
    soft = (HardTaint(taint.key, taint.value, taint.effect) for taint in taints if taint.effect == SOFT)
    return sum(not tolerates(tolerations, taint) for taint in soft)


def tolerates(tolerations: Iterable[Toleration], taint: HardTaint) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def find_tolerated_taint_sets(sets: Mapping[TaintSet, int], tolerations: tuple[Toleration, ...]) -> BoolColumn:
    """Whether all taints of each numbered set are tolerated; the last entry is for no taints."""
    tolerated = np.ones(len(sets) + 1, dtype=np.bool_)
    for taints, number in sets.items():
        tolerated[number] = all(tolerates(tolerations, taint) for taint in taints)
    return tolerated


def _tolerates(toleration: Toleration, taint: HardTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" as operator:
            bound, value = _parse_integer(toleration.value), _parse_integer(taint.value)
            if bound is None or value is None:
                return False
            return value < bound if operator == "Lt" else value > bound
        case _:
            return False


def _parse_integer(text: str) -> int | None:
    """An integer within int64 in its shortest form; None for any other text, which is not compared."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
