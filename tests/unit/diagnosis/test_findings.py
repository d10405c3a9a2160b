"""Levels, order and exit statuses of findings."""

from __future__ import annotations

import pytest

from trellis.base.reasons import Reason, Severity
from trellis.diagnosis.findings import (
    ClusterCheck,
    ClusterFinding,
    Level,
    UnknownFact,
    choose_exit_status,
    count_levels,
    list_unknown,
    sort_findings,
)

PROBLEM = ClusterFinding(Reason("SomeProblem", "It is broken.", Severity.ERROR), "a", "is broken")
WARNING = ClusterFinding(Reason("SomeWarning", "It may break.", Severity.WARNING), "b", "may break")
NOTE = ClusterFinding(Reason("SomeNote", "It is so."), "c", "is so")
UNKNOWN = UnknownFact("d", "may not be read")


def results(*findings: ClusterFinding, unknown: tuple[UnknownFact, ...] = ()) -> list[ClusterCheck]:
    return [ClusterCheck(f"check {number}", "", (finding,)) for number, finding in enumerate(findings)] + [
        ClusterCheck("last", "", (), unknown)
    ]


def test_problems_come_before_warnings_and_notes_need_no_attention() -> None:
    assert sort_findings(results(WARNING, NOTE, PROBLEM)) == (PROBLEM, WARNING)


@pytest.mark.parametrize(
    ("findings", "unknown", "fail_on", "status"),
    [
        ((), (), Level.WARNING, 0),
        ((NOTE,), (), Level.WARNING, 0),
        ((WARNING,), (), Level.WARNING, 1),
        ((WARNING,), (), Level.PROBLEM, 0),
        ((PROBLEM,), (), Level.PROBLEM, 1),
        ((), (UNKNOWN,), Level.WARNING, 0),
        ((), (UnknownFact("d", "may not be read", is_essential=True),), Level.WARNING, 2),
        ((PROBLEM,), (UnknownFact("d", "may not be read", is_essential=True),), Level.WARNING, 1),
    ],
)
def test_the_exit_status_follows_the_worst_finding(
    findings: tuple[ClusterFinding, ...], unknown: tuple[UnknownFact, ...], fail_on: Level, status: int
) -> None:
    assert choose_exit_status(results(*findings, unknown=unknown), fail_on) == status


def test_the_level_of_a_check_is_that_of_its_worst_finding() -> None:
    assert ClusterCheck("x", "", (WARNING, PROBLEM), (UNKNOWN,)).level is Level.PROBLEM
    assert ClusterCheck("x", "", (NOTE,), (UNKNOWN,)).level is Level.UNKNOWN
    assert ClusterCheck("x", "well").level is Level.OK


def test_an_unknown_subject_is_listed_once() -> None:
    assert list_unknown([ClusterCheck("x", "", (), (UNKNOWN,)), ClusterCheck("y", "", (), (UNKNOWN,))]) == (UNKNOWN,)


def test_findings_are_counted_by_level() -> None:
    assert count_levels([PROBLEM, WARNING, WARNING, NOTE]) == {Level.PROBLEM: 1, Level.WARNING: 2}
