"""To which steps are recommendations rounded? Upwards, as upstream's flags say: nobody gets less than was found."""

from __future__ import annotations

import numpy as np

from trellis.base.quantity import Quantity
from trellis.base.quantity_text import NANOS
from trellis.core.usage.columns import FloatColumn

_UNITS = (("Ti", 1024.0**4), ("Gi", 1024.0**3), ("Mi", 1024.0**2), ("Ki", 1024.0))


def rounded_up(amounts: FloatColumn, step: int) -> FloatColumn:
    """The next multiple of the step; a step of 1, or one that makes no sense, changes nothing."""
    return amounts if step <= 1 else np.ceil(amounts / step) * step


def humanized(amounts: FloatColumn) -> FloatColumn:
    """Bytes to two places of the largest binary unit, as upstream's deprecated `--humanize-memory` has them.

    The text of a float decides where it lies between two such numbers, so this goes through text; of each amount once.
    """
    distinct, where = np.unique(amounts, return_inverse=True)
    read = np.array([_humanized(amount) for amount in distinct.tolist()], dtype=np.float64)
    return read[where].reshape(amounts.shape) if len(read) else amounts


def _humanized(amount: float) -> float:
    for unit, size in _UNITS:
        if amount >= size:
            return Quantity.parse(f"{amount / size:.2f}{unit}").nanos / NANOS
    return amount  # less than a unit, or none
