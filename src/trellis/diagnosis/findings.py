"""Findings: what is wrong or unknown in a cluster, each with a reason, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from trellis.base.reasons import Reason, Severity


class Level(StrEnum):
    """The level of a finding or of a check. Unknown ranks between ok and warning: it says nothing about the cluster."""

    PROBLEM = "problem"
    WARNING = "warning"
    UNKNOWN = "unknown"
    OK = "ok"


_LEVELS: Final = {Severity.ERROR: Level.PROBLEM, Severity.WARNING: Level.WARNING, Severity.INFO: Level.OK}
_RANKS: Final = {level: rank for rank, level in enumerate(Level)}


class ClusterFinding(msgspec.Struct, frozen=True):
    """Something about a cluster that needs attention: `message` says what it is, `action` what to do.

    `subject` is an object or a component.
    """

    reason: Reason
    subject: str
    message: str
    action: str = ""

    @property
    def level(self) -> Level:
        """The level by the severity of the reason."""
        return _LEVELS[self.reason.severity]


class UnknownFact(msgspec.Struct, frozen=True):
    """Something that could not be determined, why, and what to do to know it.

    While an essential fact is unknown, a cluster without findings cannot be called healthy. `verb` and `resource` are
    the right that it takes, if a right is missing; in one namespace, or in the cluster.
    """

    subject: str
    why: str
    action: str = ""
    is_essential: bool = False
    verb: str = ""
    resource: str = ""
    namespace: str = ""


class ClusterCheck(msgspec.Struct, frozen=True):
    """The result of one check: its summary if all is well, findings, and what is unknown."""

    name: str
    summary: str = ""
    findings: tuple[ClusterFinding, ...] = ()
    unknown: tuple[UnknownFact, ...] = ()

    @property
    def level(self) -> Level:
        """The worst level of its findings; unknown if nothing but unknown facts is there."""
        levels = [finding.level for finding in self.findings]
        levels += [Level.UNKNOWN] if self.unknown else []
        return min(levels, key=_RANKS.__getitem__, default=Level.OK)


class ExitStatus:
    """Exit statuses of the commands that judge a cluster."""

    HEALTHY: Final = 0
    NEEDS_ATTENTION: Final = 1
    CANNOT_TELL: Final = 2


def sort_findings(results: Iterable[ClusterCheck]) -> tuple[ClusterFinding, ...]:
    """Findings that need attention, the worst first; those of one level keep the order of the checks."""
    findings = [finding for result in results for finding in result.findings if finding.level is not Level.OK]
    return tuple(sorted(findings, key=lambda finding: _RANKS[finding.level]))


def list_unknown(results: Iterable[ClusterCheck]) -> tuple[UnknownFact, ...]:
    """Everything that is unknown, each subject once."""
    by_subject = {unknown.subject: unknown for result in results for unknown in result.unknown}
    return tuple(by_subject.values())


def choose_exit_status(results: Sequence[ClusterCheck], fail_on: Level = Level.WARNING) -> int:
    """1 if a finding is at least as bad as `fail_on`; else 2 if an essential fact is unknown; else 0."""
    if any(_RANKS[finding.level] <= _RANKS[fail_on] for finding in sort_findings(results)):
        return ExitStatus.NEEDS_ATTENTION
    if any(unknown.is_essential for unknown in list_unknown(results)):
        return ExitStatus.CANNOT_TELL
    return ExitStatus.HEALTHY


def count_levels(findings: Iterable[ClusterFinding]) -> dict[Level, int]:
    """How many findings of each level there are."""
    counts = dict.fromkeys((Level.PROBLEM, Level.WARNING), 0)
    for finding in findings:
        if finding.level in counts:
            counts[finding.level] += 1
    return counts
