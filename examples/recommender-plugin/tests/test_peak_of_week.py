"""It keeps to the protocol, and it finds the busiest hour."""
# ruff: noqa: S101 - tests need nothing better than assert

from __future__ import annotations

import numpy as np
import pytest
from trellis_peak_of_week import PeakOfWeek

from trellis.testing.recommenders import conformance_tests
from trellis.testing.rows import GIB, NOW, UsageExample, build_rows

test_conformance = conformance_tests(PeakOfWeek)


def target(*used: UsageExample, weeks: int = 1, margin: float = 0.0) -> list[list[float]]:
    """Millicores and bytes."""
    result: list[list[float]] = (
        PeakOfWeek().estimate(build_rows(used), {"weeks": weeks, "margin": margin}, NOW).target.tolist()
    )
    return result


def test_one_busy_hour_in_a_week_is_what_counts() -> None:
    cpu, memory = np.full(167, 0.1), np.full(167, GIB)
    cpu[40], memory[80] = 2.0, 3 * GIB
    assert target(UsageExample(cpu, memory)) == [[2000.0], [3 * GIB]]


def test_an_hour_of_last_week_counts_when_two_weeks_are_asked_for() -> None:
    cpu = np.full(300, 0.1)
    cpu[10] = 2.0
    used = UsageExample(cpu, np.full(300, GIB))
    assert target(used)[0] == pytest.approx([100.0])
    assert target(used, weeks=2)[0] == [2000.0]


def test_the_margin_is_added_on_top() -> None:
    assert target(UsageExample([1.0] * 48, [GIB] * 48), margin=0.5) == [[1500.0], [1.5 * GIB]]


def test_a_new_container_is_sized_by_its_first_samples_and_says_so() -> None:
    rows = build_rows([UsageExample([0.5] * 3, [GIB] * 3, interval=60.0)], history=False)
    answer = PeakOfWeek().estimate(rows, {"weeks": 1, "margin": 0.1}, NOW)
    assert answer.explanation["from"] == ["samples"]
    assert answer.target[0, 0] > 500.0
