"""Which amount does a field say? A number in the unit of its column, or a quantity of Kubernetes, as 250m or 512Mi.

Quantities are looked for where a column has something else than numbers: a column of numbers costs what it always did.
They are whole millicores and whole bytes, rounded up, as those of the metrics API are.
"""

from __future__ import annotations

import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import FloatColumn
from trellis.sources.amounts import bytes_of, cores_of
from trellis.sources.series.csv_fields import Texts, refuse_text
from trellis.sources.series.field_values import NOTHING, numbers
from trellis.sources.series.headers import Roles
from trellis.sources.series.units import Amount


def amounts(source: str, roles: Roles, amount: Amount, texts: Texts, first: int) -> FloatColumn:
    """The amounts in a column, in its unit; an empty field, or one that says null, is NaN."""
    column = roles.header[amount.column]
    try:
        return numbers(source, column, texts, first)
    except InvalidSeries:
        is_cpu = amount.column in roles.cores
        said = [None if text.lower() in (*NOTHING, b"nan") else text for text in np.char.strip(texts).tolist()]
        written = [None if text is None else text.decode("utf-8", "replace") for text in said]
        found, unreadable = (cores_of if is_cpu else bytes_of)(written)
    if unreadable:
        wrong = next(row for row, text in enumerate(written) if text is not None and np.isnan(found[row]))
        rule = f"is not a number, nor a quantity such as {'250m' if is_cpu else '512Mi'}"
        if (written[wrong] or "").startswith("-"):
            rule = "is negative, and usage never is"
        raise refuse_text(source, first + wrong, column, bytes(texts[wrong]), rule)
    if amount.scale != 1.0:
        wrong = next((row for row, text in enumerate(written) if text is not None and not text[-1].isdigit()), 0)
        plain = f"{column.rpartition('_')[0]}_{'cores' if is_cpu else 'bytes'}".lstrip("_")
        rule = f"has a unit, and the name of the column says another: call it {plain}"
        raise refuse_text(source, first + wrong, column, bytes(texts[wrong]), rule)
    return found
