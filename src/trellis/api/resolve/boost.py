"""What a startup boost amounts to."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from trellis.api.resolve.stored import stored_amount, stored_duration, stored_seconds
from trellis.api.vpa import CPUBoost, StartupBoost
from trellis.base.durations import Duration
from trellis.base.quantity import Quantity


class BoostKind(StrEnum):
    """How the boosted value follows from the base."""

    FACTOR = "Factor"
    QUANTITY = "Quantity"


class Boost(msgspec.Struct, frozen=True):
    """A boost in effect: `factor` or `quantity` counts, by `kind`."""

    kind: BoostKind
    factor: int
    quantity: Quantity
    duration: Duration
    give_up_after: Duration | None = None


def effective_boost(default: StartupBoost | None, own: StartupBoost | None) -> Boost | None:
    """The boost of a container: its own policy replaces the pod's whole, and a policy without `cpu` is no boost.

    A factor of 1 and a quantity of 0 raise nothing, so they are no boost either and hold nothing back. A stored boost
    that cannot be read (its type is unknown, its amount is missing) is none, as a pod must not be raised by a guess.
    """
    chosen = own if own is not None else default
    cpu = chosen.cpu if chosen is not None else None
    if cpu is None:
        return None
    match cpu.type:
        case BoostKind.FACTOR if cpu.factor is not None and cpu.factor > 1:
            return Boost(
                BoostKind.FACTOR,
                cpu.factor,
                Quantity.ZERO,
                _kept(cpu),
                stored_seconds(cpu.give_up_after_seconds),
            )
        case BoostKind.QUANTITY if (added := stored_amount(cpu.quantity)) is not None and added > Quantity.ZERO:
            return Boost(BoostKind.QUANTITY, 1, added, _kept(cpu), stored_seconds(cpu.give_up_after_seconds))
        case _:
            return None


def _kept(cpu: CPUBoost) -> Duration:
    """How long after Ready; both spellings, `0s` without either."""
    return stored_duration(cpu.duration, default=stored_seconds(cpu.duration_seconds) or Duration.from_seconds(0))
