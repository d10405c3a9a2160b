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
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


class HardTaint(NamedTuple):
    """A taint that keeps pods away."""

    key: str
    value: str
    effect: str


TaintSet: TypeAlias = tuple[HardTaint, ...]

# What `spec.unschedulable` of a node amounts to: who tolerates this taint is placed there all the same.
CORDONED: Final = HardTaint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def hard_taints(taints: Iterable[Taint]) -> TaintSet:
    """The taints that matter to where a pod can be put, in one order for all nodes."""
    return tuple(sorted(HardTaint(taint.key, taint.value, taint.effect) for taint in taints if taint.effect in _HARD))


def hard_tolerations(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """The tolerations that matter to it; for how long a taint is tolerated does not."""
    return tuple(
        Toleration(toleration.key, toleration.operator, toleration.value, toleration.effect)
        for toleration in tolerations
        if toleration.effect in ("", *_HARD)
    )


def tolerates(tolerations: Iterable[Toleration], taint: HardTaint) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def tolerated_taint_sets(sets: Mapping[TaintSet, int], tolerations: tuple[Toleration, ...]) -> BoolColumn:
    """Of each numbered set of taints, whether all are tolerated; the last entry is for no taints at all."""
    answers = np.ones(len(sets) + 1, dtype=np.bool_)
    for taints, number in sets.items():
        answers[number] = all(tolerates(tolerations, taint) for taint in taints)
    return answers


def _tolerates(toleration: Toleration, taint: HardTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" as operator:
            bound, have = _whole(toleration.value), _whole(taint.value)
            if bound is None or have is None:
                return False
            return have < bound if operator == "Lt" else have > bound
        case _:
            return False


def _whole(text: str) -> int | None:
    """A whole number within int64, written without needless signs and zeros; others are not compared."""
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
