"""By which figures does an Hvpa decide, beside what its object says? Times are seconds."""

from __future__ import annotations

from fractions import Fraction

import msgspec


class HvpaSettings(msgspec.Struct, frozen=True):
    """Settings of the controller."""

    # How long pods may take to become Ready before the next step goes ahead without them, and wishes are read again.
    ready_patience: float = 60.0
    # Below the first an HPA's ratio says how much too much there is. Between both the HPA itself sees nothing to do.
    low_ratio: Fraction = Fraction(9, 10)
    high_ratio: Fraction = Fraction(11, 10)
    # An HPA writes its status after its wish. So long a wish waits for the metrics that explain it.
    status_patience: float = 5.0
