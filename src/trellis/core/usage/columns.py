"""What is usage counted in? The types of the columns, and the key of a row."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

IntColumn: TypeAlias = npt.NDArray[np.int64]
FloatColumn: TypeAlias = npt.NDArray[np.float64]
BoolColumn: TypeAlias = npt.NDArray[np.bool_]


class RowKey(NamedTuple):
    """Whose usage a row holds: all containers of one name, in all pods that one VPA governs.

    The pods' labels are no part of it, so that a rollout leaves the row, its size and its history as they are.
    """

    namespace: str
    vpa: str
    container: str


def rounds(rows: IntColumn) -> list[IntColumn]:
    """The positions of a batch, split so that no row comes twice in a part and each row's samples keep their order."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(rows) else np.zeros(0, dtype=np.bool_)
    if begins.all():
        return [np.arange(len(rows), dtype=np.int64)] if len(rows) else []
    starts = np.flatnonzero(begins)
    turn = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    return [np.sort(order[turn == number]) for number in range(int(turn.max()) + 1)]
