"""What an Hvpa controller remembers from one plan to the next.

All of it may be lost: a controller that restarts reads no count that an HPA wrote at its first pass, takes what runs as
the demand, and waits a whole window before it shrinks anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.core.hvpa.demand.recent_totals import DemandWindow, MeanDemand
from trellis.core.hvpa.steps import WorkloadShape
from trellis.core.recommend.amounts import ResourceAmounts


class HvpaDecision(msgspec.Struct, frozen=True):
    """The last decision, and the shape before it. `grew_at` is when its count last rose."""

    shape: WorkloadShape
    previous_shape: WorkloadShape
    changed_at: float
    grew_at: float | None = None


class ScaleWrite(msgspec.Struct, frozen=True):
    """A count that was written to the Hvpa's scale where no HPA drives it."""

    replicas: int
    field_manager: str
    written_at: float


class HvpaMemory(msgspec.Struct, frozen=True):
    """Results of earlier plans, per resource where it is a mapping. Recordings keep the names that fields had first.

    `hpa_windows` and `vpa_windows` hold totals of the scale-down window, `scale_up_windows` those of the scale-up
    window. `last_totals` are those of the last plan, and `held_totals` stand for a VPA's totals that are not published
    yet. `target_replicas` is the target's count after the last plan, `spec_replicas` that of the Hvpa; None if unknown.
    `drift_repaired_at` is when a count of another client was last set back, and `requests_edited_at` when another
    client last changed a pod's requests. `means` is the mean demand by the HPA's metrics. `awaiting_status_since` is
    since when a count that the HPA wrote waits for its status, and `excess_since` since when the VPA's total slightly
    exceeds what the count holds, while the HPA's metrics are within it.
    """

    hpa_windows: Mapping[str, DemandWindow] = {}
    # The last count written to the scale without an HPA, for as long as it counts. Unset rather than None: where there
    # is none, a recording reads as it did before there were any.
    scale_write: ScaleWrite | msgspec.UnsetType = msgspec.UNSET
    vpa_windows: Mapping[str, DemandWindow] = {}
    scale_up_windows: Mapping[str, DemandWindow] = {}
    last_totals: ResourceAmounts = {}
    held_totals: ResourceAmounts = {}
    decided: HvpaDecision | None = None
    target_replicas: int | None = None
    spec_replicas: int | None = None
    hpa_changed_at: float | None = None
    scaled_at: float | None = None
    drift_repaired_at: float | None = None
    requests_edited_at: float | None = None
    target_changed_at: float | None = None
    means: Mapping[str, MeanDemand] = {}
    awaiting_status_since: float | None = None
    excess_since: Mapping[str, float] = {}


def forget_written_replicas(memory: HvpaMemory) -> HvpaMemory:
    """Forget `spec.replicas` after a write that may not have happened: its value is not read as the HPA's."""
    return msgspec.structs.replace(memory, spec_replicas=None)
