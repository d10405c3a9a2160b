"""What of a recommender is written down? Every step of its passes with what it was told, and what it decided.

A step that decides something is followed by a line of kind `decided`. Replaying the steps must give the same lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from trellis.api.gates import Gates
from trellis.core.model.keys import Key
from trellis.core.model.owners import ScaleAnswer, TargetRef
from trellis.core.recommend.results import PassResult
from trellis.core.recommend.scope import Scope, Waiting
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.recommend.totals import HvpaTotals
from trellis.core.usage.columns import FloatColumn, RowKey
from trellis.core.usage.recorded_rows import RowLine
from trellis.core.usage.samples import Samples
from trellis.core.usage.settings import UsageSettings

SETUP: Final = "setup"
HOSTS: Final = "hosts"
SEEN: Final = "seen"
VPAS: Final = "vpas"
RESTORE: Final = "restore"
PODS: Final = "pods"
USAGE: Final = "usage"
COLLECT: Final = "collect"
RECOMMEND: Final = "recommend"
PUBLISH: Final = "publish"
TOTALS: Final = "totals"
DUE: Final = "due"
SAVE: Final = "save"
DECIDED: Final = "decided"

# What stands in the place of a reason for a recommender that is installed apart, and so cannot be replayed.
INSTALLED: Final = "installed"


class Setup(msgspec.Struct, frozen=True):
    """What a recommender starts with; the presets are by recommender and parameter."""

    usage: UsageSettings
    pipeline: PipelineSettings
    default: DefaultSettings
    gates: Gates
    names: tuple[str, ...]
    presets: dict[str, dict[str, str]] = {}


class HostsLine(msgspec.Struct, frozen=True):
    """Names that are not answered to by what comes with Trellis, with the reason, or `INSTALLED`."""

    others: dict[str, str]


class VpasLine(msgspec.Struct, frozen=True):
    """VPAs are taken in."""

    recommenders: tuple[str, ...]
    namespace: str
    ignored: tuple[str, ...]
    all_of_them: bool
    can_boost: bool
    totals: bool = False

    @property
    def scope(self) -> Scope:
        """Whom it serves."""
        return Scope(frozenset(self.recommenders), self.namespace, frozenset(self.ignored), self.totals)


class PodsLine(msgspec.Struct, frozen=True):
    """Pods are taken in. Without `scales` they are those of the line before."""

    now: float
    fetching: tuple[Key, ...]
    without: tuple[Key, ...]
    problem: str
    scales: tuple[tuple[TargetRef, ScaleAnswer], ...] | None

    @property
    def waiting(self) -> Waiting:
        """Who waits for its history."""
        return Waiting(frozenset(self.fetching), frozenset(self.without), self.problem)


class RestoreLine(msgspec.Struct, frozen=True):
    """History is taken in."""

    now: float
    stored: bool
    rows: tuple[RowLine, ...]


class UsageLine(msgspec.Struct, frozen=True):
    """Usage is taken in, and the kills of what was seen."""

    now: float
    namespaces: list[str]
    pods: list[str]
    containers: list[str]
    times: FloatColumn
    cpu: FloatColumn
    memory: FloatColumn

    @classmethod
    def of(cls, samples: Samples, now: float) -> UsageLine:
        """To be written."""
        columns = (samples.times, samples.cpu, samples.memory)
        return cls(now, samples.namespaces, samples.pods, samples.containers, *columns)

    def samples(self) -> Samples:
        """As they were."""
        return Samples(self.namespaces, self.pods, self.containers, self.times, self.cpu, self.memory)


class AtLine(msgspec.Struct, frozen=True):
    """A step that is told nothing but the time."""

    now: float


class PublishLine(msgspec.Struct, frozen=True):
    """Which of the statuses were written, by their place among those that were decided, and the version of each."""

    now: float
    written: tuple[tuple[int, str], ...]


class DueLine(msgspec.Struct, frozen=True):
    """So many checkpoints may be written."""

    now: float
    limit: int


class SaveLine(msgspec.Struct, frozen=True):
    """Checkpoints were written."""

    now: float
    keys: tuple[RowKey, ...]


class DecidedStatus(msgspec.Struct, frozen=True):
    """A status that is to be written, and why."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    status: dict[str, Any]
    first: bool
    reasons: tuple[str, ...]


class DecidedTotals(msgspec.Struct, frozen=True):
    """What an Hvpa is to know of its workload."""

    namespace: str
    name: str
    cpu: str | None
    memory: str | None


def decided_statuses(result: PassResult) -> list[DecidedStatus]:
    """What is to be compared of a pass."""
    return [
        DecidedStatus(
            write.namespace,
            write.name,
            write.uid,
            write.resource_version,
            write.status,
            write.first,
            tuple(reason.code for reason in write.reasons),
        )
        for write in result.writes
    ]


def decided_totals(totals: Sequence[HvpaTotals]) -> list[DecidedTotals]:
    """What is to be compared of totals."""
    return [
        DecidedTotals(each.hvpa.metadata.namespace, each.hvpa.metadata.name, each.cpu, each.memory) for each in totals
    ]


def pods_line(
    now: float, waiting: Waiting, scales: Mapping[TargetRef, ScaleAnswer], known: Mapping[TargetRef, ScaleAnswer] | None
) -> PodsLine:
    """To be written, without the answers of scales if they are those that are known."""
    told = None if scales == known else tuple(scales.items())
    return PodsLine(now, tuple(sorted(waiting.fetching)), tuple(sorted(waiting.without)), waiting.problem, told)
