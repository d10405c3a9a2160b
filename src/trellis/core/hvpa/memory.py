"""What an Hvpa controller remembers from one plan to the next.

All of it may be lost: a controller that starts anew reads no count that an HPA wrote at its first pass, takes what runs
as what was asked for, and waits a whole window before it shrinks anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.core.hvpa.demand.windows import DemandWindow, MeanDemand
from trellis.core.hvpa.steps import WorkloadShape
from trellis.core.recommend.amounts import ResourceAmounts


class HvpaDecision(msgspec.Struct, frozen=True):
    """What was decided last, and what there was before it.

    `since` is when it changed, and `grew` when its count last rose.
    """

    shape: WorkloadShape
    came: WorkloadShape
    since: float
    grew: float | None = None


class ScaleWrite(msgspec.Struct, frozen=True):
    """A count that was written to the Hvpa's scale where no HPA drives it, by which field manager, and when."""

    replicas: int
    by: str
    at: float


class HvpaMemory(msgspec.Struct, frozen=True):
    """What is known of earlier plans, per resource where it is a mapping.

    `hpa` holds the HPA's totals of the scale-down window and `vpa` the VPA's; `low` holds the totals of the scale-up
    window. `settled` are the totals that the last plan went by. `held` stands for a VPA's total that is not published
    yet. `count` is the target's count after the last plan, and `left` what `spec.replicas` says then; None if that is
    not known. `told` is when the HPA's total last changed, `scaled` when the target's count was last written, and
    `repaired` when a count of another client was last set back. `edited` is when another client last changed a pod's
    requests, and `anew` when the target last became another one. `measured` is the mean demand by the HPA's metrics,
    and `awaited` since when a wish waits for the HPA's status. `excess` is since when the VPA's total is a little more
    than the count holds, where the HPA's metrics are within it.
    """

    hpa: Mapping[str, DemandWindow] = {}
    # The last count written to the scale without an HPA, for as long as it counts. Unset rather than None: where there
    # is none, a recording reads as it did before there were any.
    wish: ScaleWrite | msgspec.UnsetType = msgspec.UNSET
    vpa: Mapping[str, DemandWindow] = {}
    low: Mapping[str, DemandWindow] = {}
    settled: ResourceAmounts = {}
    held: ResourceAmounts = {}
    decided: HvpaDecision | None = None
    count: int | None = None
    left: int | None = None
    told: float | None = None
    scaled: float | None = None
    repaired: float | None = None
    edited: float | None = None
    anew: float | None = None
    measured: Mapping[str, MeanDemand] = {}
    awaited: float | None = None
    excess: Mapping[str, float] = {}


def forget_written_replicas(memory: HvpaMemory) -> HvpaMemory:
    """After a write to `spec.replicas` that may not have happened: what stands there is not read."""
    return msgspec.structs.replace(memory, left=None)
