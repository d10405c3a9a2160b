"""How long is there no reason to look at a Buffer, unless the watch tells of a change?

All that Buffers depend on calls for a look by itself. What nobody tells of is looked at in every pass: the scale of a
kind that is not followed, and what sizes a workload that another one owns. Everybody else is looked at now and then all
the same, because a watch is only software.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

from trellis.api.kube.observed_workloads import Observed
from trellis.api.resolve import GivenPods, NodeClassTotals
from trellis.controllers.buffers.keeping import Known
from trellis.core.buffers import FoundTarget

_CALM_SECONDS: Final = 600.0


def clock() -> float:
    """The loop's clock, by which calm is measured."""
    return asyncio.get_running_loop().time()


def calm_until(known: Known) -> float:
    """When to look again, for a Buffer of which all has been told."""
    until = clock() + _CALM_SECONDS
    if isinstance(known.meaning.capacity, NodeClassTotals | GivenPods):
        return until
    workload = known.selection[0] if known.selection is not None else None
    if not isinstance(workload, Observed) or workload.metadata.controller is not None:
        return -math.inf
    target = known.facts.target if known.facts is not None else None
    if isinstance(target, FoundTarget) and target.pod is not None:
        return until
    # What admission makes of a template is believed for a while only.
    return min(until, known.template.until) if known.template is not None else -math.inf
