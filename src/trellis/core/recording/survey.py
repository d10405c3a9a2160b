"""The progress of a survey, so that an interrupted survey can continue: the rows of each namespace that was read.

A file that was written with other settings is refused: half of a survey at one resolution and half at another cannot
be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import (
    FORMAT_VERSION,
    HEADER,
    RecordingHeader,
    decode_payload,
    encode_line,
    read_header,
    read_lines,
)
from trellis.core.advice.survey.model import ResourceAmount, WorkloadUsage
from trellis.core.advice.survey.usage import SurveyedUsage
from trellis.core.advice.survey.usage_summaries import UsageSummary
from trellis.core.recording.usage_rows import UsageRowLine

SURVEY: Final = "survey"
_BEGIN: Final = "begin"
_NAMESPACE: Final = "namespace"


class _SurveyStartLine(msgspec.Struct, frozen=True):
    time: float


class _SurveyedUsageLine(msgspec.Struct, frozen=True):
    row: UsageRowLine
    highest: tuple[float | None, float | None]
    kills: int
    last_kill: float | None
    summary: _UsageSummaryLine | None = None

    @classmethod
    def of(cls, usage: SurveyedUsage) -> _SurveyedUsageLine:
        highest = (_number(usage.highest.cpu), _number(usage.highest.memory))
        summary = None if usage.summary is None else _UsageSummaryLine.of(usage.summary)
        return cls(UsageRowLine.of(usage.row), highest, usage.kills, _number(usage.last_kill), summary)

    def to_usage(self) -> SurveyedUsage:
        return SurveyedUsage(
            self.row.to_saved_row(),
            ResourceAmount(*map(_nan, self.highest)),
            self.kills,
            _nan(self.last_kill),
            None if self.summary is None else self.summary.to_summary(),
        )


class _UsageSummaryLine(msgspec.Struct, frozen=True):
    """Millicores to one place and bytes, and null where there is no sample."""

    start: float
    step: float
    cpu: tuple[float | None, ...]
    memory: tuple[float | None, ...]

    @classmethod
    def of(cls, summary: UsageSummary) -> _UsageSummaryLine:
        cpu, memory = (
            tuple(_number(round(value, 1)) for value in column.tolist()) for column in (summary.cpu, summary.memory)
        )
        return cls(summary.start, summary.step, cpu, memory)

    def to_summary(self) -> UsageSummary:
        cpu, memory = (
            np.array([_nan(value) for value in column], dtype=np.float32) for column in (self.cpu, self.memory)
        )
        return UsageSummary(self.start, self.step, cpu, memory)


class _WorkloadUsageLine(msgspec.Struct, frozen=True):
    """Whole millicores and bytes, and -1 where there is no measurement."""

    start: float
    step: float
    pods: tuple[int, ...]
    cpu: tuple[int, ...]
    memory: tuple[int, ...]

    @classmethod
    def of(cls, totals: WorkloadUsage) -> _WorkloadUsageLine:
        cpu, memory = (
            tuple(np.where(np.isnan(usage), -1, np.rint(usage)).astype(np.int64).tolist())
            for usage in (totals.cpu, totals.memory)
        )
        return cls(totals.start, totals.step, tuple(totals.pods.tolist()), cpu, memory)

    def to_totals(self) -> WorkloadUsage:
        cpu, memory = (np.array(usage, dtype=np.float64) for usage in (self.cpu, self.memory))
        pods = np.array(self.pods, dtype=np.int64)
        return WorkloadUsage(
            self.start, self.step, pods, np.where(cpu < 0, np.nan, cpu), np.where(memory < 0, np.nan, memory)
        )


class _NamespaceLine(msgspec.Struct, frozen=True):
    namespace: str
    rows: tuple[_SurveyedUsageLine, ...]
    samples: int
    series: int
    totals: dict[str, _WorkloadUsageLine] = {}


class SavedNamespace(msgspec.Struct, frozen=True):
    """A namespace that was read completely: its rows, and the number of samples and series behind them.

    `totals` are by the keys of workloads.
    """

    namespace: str
    rows: tuple[SurveyedUsage, ...]
    samples: int = 0
    series: int = 0
    totals: Mapping[str, WorkloadUsage] = {}


class SavedSurvey(msgspec.Struct, frozen=True):
    """The progress of a survey; `time` is when it began, which is the time it surveys."""

    time: float
    namespaces: Mapping[str, SavedNamespace]


def encode_survey_start(time: float, settings: Mapping[str, str], release: str) -> bytes:
    """The first lines of a file: the settings by which usage is read and counted."""
    return encode_line(HEADER, RecordingHeader(FORMAT_VERSION, SURVEY, release, settings)) + encode_line(
        _BEGIN, _SurveyStartLine(time)
    )


def encode_namespace(saved: SavedNamespace) -> bytes:
    """The line of a namespace that was read completely."""
    rows = tuple(map(_SurveyedUsageLine.of, saved.rows))
    totals = {key: _WorkloadUsageLine.of(usage) for key, usage in saved.totals.items()}
    return encode_line(_NAMESPACE, _NamespaceLine(saved.namespace, rows, saved.samples, saved.series, totals))


def read_saved_survey(lines: bytes | Iterable[bytes], settings: Mapping[str, str]) -> SavedSurvey:
    """Read the progress of a survey with the same settings; raises `InvalidRecording`."""
    time = math.nan
    namespaces: dict[str, SavedNamespace] = {}
    for kind, data in read_lines(lines):
        if kind == HEADER:
            _refuse(read_header(kind, data), settings)
        elif kind == _BEGIN:
            time = decode_payload(data, _SurveyStartLine).time
        elif kind == _NAMESPACE:
            line = decode_payload(data, _NamespaceLine)
            rows = tuple(row.to_usage() for row in line.rows)
            totals = {key: usage.to_totals() for key, usage in line.totals.items()}
            namespaces[line.namespace] = SavedNamespace(line.namespace, rows, line.samples, line.series, totals)
    if math.isnan(time):
        raise InvalidRecording("", "does not contain the start of the survey: it was stopped before that was written")
    return SavedSurvey(time, namespaces)


def _refuse(header: RecordingHeader, figures: Mapping[str, str]) -> None:
    if header.component != SURVEY:
        raise InvalidRecording(header.component, "wrote this file; only the file of a survey can be resumed")
    for name in sorted(header.settings.keys() | figures.keys()):
        before, now = header.settings.get(name, ""), figures.get(name, "")
        if before != now:
            raise InvalidRecording(before, f"was the {name} of this survey, and now it is {now!r}: start a new survey")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
