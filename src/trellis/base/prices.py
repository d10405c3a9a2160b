"""Prices of a core-hour and a GiB-hour, by which CPU is weighed against memory."""

from __future__ import annotations

import msgspec

from trellis.base.errors import InvalidInput

GIB = 2.0**30
HOURS_IN_A_MONTH = 730.0
_RULE = "must be the prices of a core-hour and a GiB-hour, and optionally a currency, as in 0.0316,0.0042,USD"


class Prices(msgspec.Struct, frozen=True):
    """The price of a core-hour and of a GiB-hour, with the currency."""

    name: str
    currency: str
    core_hour: float
    gib_hour: float

    def cost_per_hour(self, cores: float, bytes_: float) -> float:
        """The cost of an amount for an hour."""
        return cores * self.core_hour + bytes_ / GIB * self.gib_hour

    def cost_per_month(self, cores: float, bytes_: float) -> float:
        """The cost of an amount for a month."""
        return self.cost_per_hour(cores, bytes_) * HOURS_IN_A_MONTH

    @property
    def is_free(self) -> bool:
        """Whether both prices are zero."""
        return self.core_hour == 0 and self.gib_hour == 0


EXAMPLE_PRICES = Prices("example", "USD", 0.0316, 0.0042)


def choose_weights(prices: Prices) -> Prices:
    """Prices for weighing CPU against memory: the example prices where both are zero."""
    return EXAMPLE_PRICES if prices.is_free else prices


def parse_prices(text: str) -> Prices:
    """Parse prices of a command line: `0.0316,0.0042` or `0.03,0.004,EUR`."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in {2, 3} or not all(parts):
        raise InvalidInput(text, _RULE)
    try:
        core, gib = float(parts[0]), float(parts[1])
    except ValueError:
        raise InvalidInput(text, _RULE) from None
    if not (0 <= core < float("inf") and 0 <= gib < float("inf")):
        raise InvalidInput(text, "a price must be a number of at least 0")
    return Prices("given", parts[2] if len(parts) == 3 else "USD", core, gib)
