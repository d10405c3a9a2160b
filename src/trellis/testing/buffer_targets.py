"""The conformance suite for kinds of targets: can a Buffer keep room for yours?

With pytest, one line makes a test of every rule:

    from trellis.testing.buffer_targets import conformance_tests

    test_conformance = conformance_tests(GameServerSets, [BUSY, NEW])

Without it, `failures_of(GameServerSets, [BUSY, NEW])` says what is wrong. Either takes something that makes the kind,
and objects of it as the API server stores them. The rules are those of `trellis.core.buffers.target_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from trellis.testing import buffer_target_checks as checks
from trellis.testing.answers import Nonconformance
from trellis.testing.buffer_target_checks import Document, Factory

__all__ = ["CHECKS", "Check", "Failure", "Nonconformance", "conformance_tests", "failures_of"]


class Check(msgspec.Struct, frozen=True):
    """One rule: its name, what it says, and what raises `Nonconformance` when it is broken."""

    name: str
    says: str
    run: Callable[[Factory, Sequence[Document]], None]


class Failure(msgspec.Struct, frozen=True):
    """A rule that is broken, and how."""

    check: str
    message: str


def _check(run: Callable[[Factory, Sequence[Document]], None]) -> Check:
    return Check(run.__name__.replace("_", "-"), (run.__doc__ or "").strip(), run)


CHECKS: Final = tuple(
    map(
        _check,
        (
            checks.declares_itself,
            checks.reads_its_own,
            checks.makes_room,
            checks.takes_a_new_object,
            checks.changes_nothing,
            checks.repeats_itself,
            checks.does_no_io,
            checks.reads_no_clock,
        ),
    )
)


def failures_of(make: Factory, documents: Sequence[Document]) -> list[Failure]:
    """Every rule that a kind breaks on these objects; none if it conforms."""
    found: list[Failure] = []
    for check in CHECKS:
        try:
            check.run(make, documents)
        except Nonconformance as error:
            found.append(Failure(check.name, str(error)))
    return found


def conformance_tests(make: Factory, documents: Sequence[Document]) -> Callable[..., None]:
    """A test function for pytest, with a case for each rule."""
    import pytest  # noqa: PLC0415 - the rules do without it

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
    def test_conformance(check: Check) -> None:
        check.run(make, documents)

    return test_conformance
