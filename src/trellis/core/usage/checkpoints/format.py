"""The format of checkpoints, version "v3": saved rows to statuses, and checkpoints back to saved rows.

Everything that upstream writes is read. An inconsistent checkpoint is refused as a whole, with the invalid field: a
partial history is worse than none, because it does not show that the rest is missing.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from trellis.api.kinds.checkpoint import (
    CHECKPOINT_VERSION,
    CheckpointStatus,
    HistogramCheckpoint,
    VerticalPodAutoscalerCheckpoint,
)
from trellis.base.errors import InvalidCheckpoint, InvalidTime
from trellis.base.times import format_time, parse_time
from trellis.core.usage.columns import RowKey
from trellis.core.usage.histograms.bins import CPU_BINS, CPU_TOTAL_BINS, MEMORY_BINS, MEMORY_TOTAL_BINS, BinLayout
from trellis.core.usage.histograms.decaying_histograms import SavedHistogram

# Says of a copy which checkpoint it is a copy of; a checkpoint with it is not restored.
KEPT_FROM_ANNOTATION = "trellis.x-k8s.io/kept-from"
_NAME_LENGTH = 253
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,8}")
_LARGEST_WEIGHT = 2**32 - 1  # upstream keeps weights in 32 bits, and writes 10000 at most
_LARGEST_TOTAL = 1e100  # a sample weighs less than 2^100, so a row would need 10^70 of them
_LARGEST_COUNT = 2**63 - 1
_LATEST = 366 * 86_400.0  # seconds; a reference is ahead of the clock by a memory window and half a half-life at most


class SavedRow(msgspec.Struct, frozen=True):
    """A row as a checkpoint stores it. Absent times are NaN; the totals are None where they are not recorded."""

    key: RowKey
    first: float
    last: float
    count: int
    updated: float
    cpu: SavedHistogram
    memory: SavedHistogram
    cpu_total: SavedHistogram | None = None
    memory_total: SavedHistogram | None = None
    history: str = ""
    runs: str = ""
    peaks: str = ""


def build_checkpoint_name(vpa: str, container: str) -> str:
    """The name of a row's checkpoint: upstream's, shortened where it exceeds the length of a name."""
    name = f"{vpa}-{container}"
    if len(name) <= _NAME_LENGTH:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _NAME_LENGTH - 17].rstrip('-.')}-{digest}"


def build_checkpoint_status(saved: SavedRow) -> dict[str, Any]:
    """The status of a row's checkpoint, as JSON has it."""
    status = CheckpointStatus(
        last_update_time=_format_time(saved.updated),
        version=CHECKPOINT_VERSION,
        cpu_histogram=_encode_histogram(saved.cpu),
        memory_histogram=_encode_histogram(saved.memory),
        cpu_total_histogram=_encode_histogram(saved.cpu_total) if saved.cpu_total else None,
        memory_total_histogram=_encode_histogram(saved.memory_total) if saved.memory_total else None,
        first_sample_start=_format_time(saved.first),
        last_sample_start=_format_time(saved.last),
        total_samples_count=saved.count,
        history=saved.history,
        runs=saved.runs,
        peaks=saved.peaks,
    )
    document: dict[str, Any] = msgspec.to_builtins(status)
    return document


def read_checkpoint(checkpoint: VerticalPodAutoscalerCheckpoint, now: float = math.nan) -> SavedRow:
    """The row that a checkpoint holds; raises `InvalidCheckpoint`.

    Without `now`, times are compared with when the checkpoint says it was written, which may be wrong itself.
    """
    for field, name in (
        ("metadata.namespace", checkpoint.metadata.namespace),
        ("spec.vpaObjectName", checkpoint.spec.vpa_object_name),
        ("spec.containerName", checkpoint.spec.container_name),
    ):
        if not name:
            raise InvalidCheckpoint(field, name, "must not be empty: it names the owner of the history")
    status = checkpoint.status or CheckpointStatus()
    if status.version != CHECKPOINT_VERSION:
        raise InvalidCheckpoint("status.version", status.version, f'must be "{CHECKPOINT_VERSION}"')
    count = status.total_samples_count or 0
    if not 0 <= count <= _LARGEST_COUNT:
        raise InvalidCheckpoint("status.totalSamplesCount", count, f"must be from 0 to {_LARGEST_COUNT}")
    updated = _parse_time("lastUpdateTime", status.last_update_time, now + _LATEST)
    latest = (updated if math.isnan(now) else now) + _LATEST
    cpu_total, memory_total = status.cpu_total_histogram, status.memory_total_histogram
    return SavedRow(
        key=RowKey(checkpoint.metadata.namespace, checkpoint.spec.vpa_object_name, checkpoint.spec.container_name),
        first=_parse_time("firstSampleStart", status.first_sample_start, latest),
        last=_parse_time("lastSampleStart", status.last_sample_start, latest),
        count=count,
        updated=updated,
        cpu=_decode_histogram("cpuHistogram", status.cpu_histogram or HistogramCheckpoint(), CPU_BINS, latest),
        memory=_decode_histogram(
            "memoryHistogram", status.memory_histogram or HistogramCheckpoint(), MEMORY_BINS, latest
        ),
        cpu_total=_decode_histogram("cpuTotalHistogram", cpu_total, CPU_TOTAL_BINS, latest) if cpu_total else None,
        memory_total=_decode_histogram("memoryTotalHistogram", memory_total, MEMORY_TOTAL_BINS, latest)
        if memory_total
        else None,
        history=status.history,
        runs=status.runs,
        peaks=status.peaks,
    )


def _encode_histogram(saved: SavedHistogram) -> HistogramCheckpoint:
    return HistogramCheckpoint(
        reference_timestamp=_format_time(saved.reference),
        bucket_weights={str(bucket): weight for bucket, weight in saved.weights.items()},
        total_weight=saved.total,
    )


def _decode_histogram(name: str, checkpoint: HistogramCheckpoint, layout: BinLayout, latest: float) -> SavedHistogram:
    reference = _parse_time(f"{name}.referenceTimestamp", checkpoint.reference_timestamp, latest)
    total = checkpoint.total_weight or 0.0
    if not 0 <= total <= _LARGEST_TOTAL:  # NaN is refused with the rest
        raise InvalidCheckpoint(f"status.{name}.totalWeight", total, f"must be from 0 to {_LARGEST_TOTAL:g}")
    weights = {
        _parse_bin(f"status.{name}.bucketWeights", bin_key, layout): _check_weight(
            f"status.{name}.bucketWeights[{bin_key}]", weight
        )
        for bin_key, weight in (checkpoint.bucket_weights or {}).items()
    }
    if math.isnan(reference) and total and any(weights.values()):
        field = f"status.{name}.referenceTimestamp"
        raise InvalidCheckpoint(
            field, checkpoint.reference_timestamp, "must be given: the age of the weights follows from it"
        )
    return SavedHistogram(reference, weights, total)


def _parse_bin(field: str, key: str, layout: BinLayout) -> int:
    if not _DECIMAL.fullmatch(key) or int(key) >= layout.bins:
        raise InvalidCheckpoint(
            field, key, f"must have indexes of histogram bins in decimal, from 0 to {layout.bins - 1}, as keys"
        )
    return int(key)


def _check_weight(field: str, weight: int) -> int:
    if not 0 <= weight <= _LARGEST_WEIGHT:
        raise InvalidCheckpoint(field, weight, f"must be from 0 to {_LARGEST_WEIGHT}")
    return weight


def _parse_time(name: str, text: str | None, latest: float = math.nan) -> float:
    """Seconds since the epoch. Go's zero time is none, however it is written."""
    if text is None:
        return math.nan
    try:
        moment = parse_time(text)
    except InvalidTime as error:
        raise InvalidCheckpoint(f"status.{name}", text, f"is {error.rule}") from error
    if moment.year == 1:
        return math.nan
    seconds = moment.timestamp()
    if seconds > latest:
        # New samples would weigh nothing beside it, so that the row would never learn anything again.
        raise InvalidCheckpoint(
            f"status.{name}", text, "must not be more than a year after the write of the checkpoint, nor after now"
        )
    return seconds


def _format_time(seconds: float) -> str | None:
    return None if math.isnan(seconds) else format_time(datetime.fromtimestamp(seconds, UTC))
