"""What do metrics tell of Buffers? How many there are of each verdict, and of so many of them their own figures."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from trellis.api.buffer import Buffer
from trellis.base.errors import InvalidInput
from trellis.base.times import parse_time
from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.keeping import Keeping
from trellis.kube.informer import Informer
from trellis.runtime.metrics import GaugeSpec, Metrics


def export(metrics: Metrics, buffers: Informer[Buffer], keeping: Keeping, most: int) -> None:
    """Say how all of them are; those that come first by name have figures of their own."""
    verdicts: Counter[tuple[str, ...]] = Counter()
    notes: Counter[tuple[str, ...]] = Counter()
    own: dict[GaugeSpec, dict[tuple[str, ...], float]] = {
        spec: {} for spec in (named.WANTED, named.CHUNKS, named.LAST_FULL, named.LAST_CHANGE)
    }
    for key, known in sorted(keeping.all(), key=lambda each: each[0]):
        if known.verdict:
            verdicts[(known.verdict,)] += 1
        notes.update((each,) for each in known.notes)
        if known.settled is None or len(own[named.WANTED]) >= most:
            continue
        own[named.WANTED][key] = float(known.settled.wanted)
        own[named.CHUNKS][key] = float(known.settled.chunks)
        full = _last_full(buffers.get(*key))
        if full is not None:
            own[named.LAST_FULL][key] = full.timestamp()
        if known.changed is not None:
            own[named.LAST_CHANGE][key] = known.changed
    metrics.set_all(named.VERDICTS, {labels: float(count) for labels, count in verdicts.items()})
    metrics.set_all(named.NOTES, {labels: float(count) for labels, count in notes.items()})
    for spec, values in own.items():
        metrics.set_all(spec, values)


def _last_full(buffer: Buffer | None) -> datetime | None:
    text = buffer.status.last_fully_provisioned if buffer is not None and buffer.status is not None else None
    try:
        return parse_time(text) if text else None
    except InvalidInput:
        return None
