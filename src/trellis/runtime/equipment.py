"""What is a controller given? A cluster to read and write, ways to tell of its work, and whether it may do any.

`Component.equipment` makes it for a process; tests make one with a clock and chances of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trellis.kube.backoff import Draw
from trellis.kube.client import Client
from trellis.kube.served import Served
from trellis.kube.writer import Writer
from trellis.runtime.health import Activity
from trellis.runtime.metrics import Metrics
from trellis.runtime.posting import Record


class Equipment(msgspec.Struct, frozen=True, kw_only=True):
    """What every controller works with. `now` is the wall clock, `served` what the API server has."""

    client: Client
    writer: Writer
    served: Served
    metrics: Metrics
    activity: Activity
    record: Record
    may_act: Callable[[], bool]
    now: Callable[[], float]
    draw: Draw
