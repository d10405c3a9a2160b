"""The conformance suite for recommenders: does yours keep to the protocol?

With pytest, one line makes a test of every rule:

    from trellis.testing.recommenders import conformance_tests

    test_conformance = conformance_tests(PeakOfWeek)

Without it, `failures_of(PeakOfWeek)` says what is wrong. Either takes something that makes a recommender: the class
itself, or a function. The rules are those of `trellis.core.recommend.protocol`; the rows they are tried on are in
`trellis.testing.rows`, and `trellis.testing.usage` has Hypothesis strategies for more of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from trellis.core.recommend.declaration import needs_runs
from trellis.testing import recommender_checks as checks
from trellis.testing.answers import Nonconformance, asked, must_be_possible
from trellis.testing.recommender_checks import Factory, SlowRecommender

__all__ = ["CHECKS", "Check", "Failure", "Nonconformance", "SlowRecommender", "conformance_tests", "failures_of"]


class Check(msgspec.Struct, frozen=True):
    """One rule: its name, what it says, and what raises `Nonconformance` when it is broken."""

    name: str
    says: str
    run: Callable[[Factory], None]


class Failure(msgspec.Struct, frozen=True):
    """A rule that is broken, and how."""

    check: str
    message: str


def _check(run: Callable[[Factory], None]) -> Check:
    return Check(run.__name__.replace("_", "-"), (run.__doc__ or "").strip(), run)


CHECKS: Final = tuple(
    map(
        _check,
        (
            checks.declares_itself,
            checks.answers_in_shape,
            checks.answers_what_can_be,
            checks.changes_nothing,
            checks.repeats_itself,
            checks.answers_each_row_alone,
            checks.ignores_order,
            checks.takes_every_parameter,
            checks.reads_what_it_declares,
            checks.does_no_io,
            checks.reads_no_clock,
            checks.can_be_sent,
            checks.is_quick,
        ),
    )
)


def failures_of(make: Factory) -> list[Failure]:
    """Every rule that a recommender breaks; none if it conforms."""
    found: list[Failure] = []
    for check in CHECKS:
        try:
            check.run(make)
        except Nonconformance as error:
            found.append(Failure(check.name, str(error)))
    return found


def conformance_tests(make: Factory, *, examples: int = 25) -> Callable[..., None]:
    """A test function for pytest, with a case for each rule and one for any rows that Hypothesis thinks of."""
    import pytest  # noqa: PLC0415 - the rules do without it

    answers_anything = Check("answers-anything", "Any rows get an answer that can be.", _anything(examples))

    @pytest.mark.parametrize("check", [*CHECKS, answers_anything], ids=lambda check: check.name)
    def test_conformance(check: Check) -> None:
        check.run(make)

    return test_conformance


def _anything(examples: int) -> Callable[[Factory], None]:
    def run(make: Factory) -> None:
        from hypothesis import HealthCheck, given, settings  # noqa: PLC0415

        from trellis.testing.usage import any_rows  # noqa: PLC0415

        recommender: Any = make()

        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(any_rows(history=recommender.needs_history, runs=needs_runs(recommender)))
        def ask(rows: Any) -> None:
            must_be_possible(asked(make(), rows), rows)

        ask()

    return run
