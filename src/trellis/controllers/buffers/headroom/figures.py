"""The metrics of headroom: what of each Buffer is provisioned, what it costs, and how often it was there in time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from trellis.api.buffer import Buffer
from trellis.controllers.buffers import metrics as named
from trellis.core.model.keys import key_of
from trellis.core.nodes.verdicts import BufferVerdict
from trellis.runtime.metrics import Metrics

_GAUGES: Final = (named.PROVISIONED, named.PRICE)


def export(metrics: Metrics, verdicts: Sequence[BufferVerdict], buffers: Iterable[Buffer], most: int) -> None:
    """Set and count; `most` Buffers, the first by name, have series of their own."""
    own = sorted(verdicts, key=lambda each: each.key)[:most]
    metrics.keep(named.BUFFER, {key_of(each) for each in buffers})
    metrics.set_all(named.PROVISIONED, {each.key: float(each.on_ready) for each in own})
    metrics.set_all(named.PRICE, {each.key: each.price for each in own})
    for each in own:
        metrics.add(named.HITS, each.hits, *each.key)
        metrics.add(named.MISSES, each.misses, *each.key)


def clear(metrics: Metrics) -> None:
    """Say nothing more: another process observes now."""
    for spec in _GAUGES:
        metrics.set_all(spec, {})
