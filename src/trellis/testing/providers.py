"""The conformance suite for providers: does yours keep to the protocol?

With pytest, one line makes a test of every rule:

    from trellis.testing.providers import conformance_tests

    test_conformance = conformance_tests(MyYard)

Without it, `failures_of(MyYard)` says what is wrong. Either takes something that makes a yard: your provider in a world
in which it can be tried, see `trellis.testing.yards`. The rules are those of `trellis.providers.protocol`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

import msgspec

from trellis.testing import provider_checks as checks
from trellis.testing.answers import Nonconformance
from trellis.testing.yards import Yard

__all__ = ["CHECKS", "Check", "Failure", "Nonconformance", "Yard", "conformance_tests", "failures_of"]

YardMaker: TypeAlias = Callable[[], Yard]
# Runs a coroutine to its end: `asyncio.run`, or something with a clock of its own.
Runner: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


class Check(msgspec.Struct, frozen=True):
    """One rule: its name, what it says, and what raises `Nonconformance` when it is broken."""

    name: str
    says: str
    run: Callable[[Yard], Awaitable[None]]


class Failure(msgspec.Struct, frozen=True):
    """A rule that is broken, and how."""

    check: str
    message: str


def _check(run: Callable[[Yard], Awaitable[None]]) -> Check:
    return Check(getattr(run, "__name__", "").replace("_", "-"), (run.__doc__ or "").strip(), run)


CHECKS: Final = tuple(
    map(
        _check,
        (
            checks.tells_of_groups,
            checks.orders_what_is_missing,
            checks.names_what_it_orders,
            checks.repeats_no_order,
            checks.tells_what_is,
            checks.takes_nothing_away_by_order,
            checks.keeps_the_maximum,
            checks.keeps_the_minimum,
            checks.knows_its_groups,
            checks.comes_up_as_it_said,
            checks.is_done_when_all_is_up,
            checks.takes_instances_back,
            checks.passes_over_strangers,
            checks.remembers_nothing,
            checks.can_be_left_waiting,
        ),
    )
)


def failures_of(make: YardMaker, run: Runner = asyncio.run) -> list[Failure]:
    """Every rule that a provider breaks; none if it conforms."""
    found: list[Failure] = []
    for check in CHECKS:
        try:
            run(_tried(check, make))
        except Nonconformance as error:
            found.append(Failure(check.name, str(error)))
    return found


def conformance_tests(make: YardMaker, run: Runner = asyncio.run) -> Callable[..., None]:
    """A test function for pytest, with a case for each rule."""
    import pytest  # noqa: PLC0415 - the rules do without it

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
    def test_conformance(check: Check) -> None:
        run(_tried(check, make))

    return test_conformance


async def _tried(check: Check, make: YardMaker) -> None:
    """A yard is made where the loop runs already, so that it may have clients of its own."""
    try:
        await check.run(make())
    except Nonconformance:
        raise
    except Exception as error:
        raise Nonconformance(f"it raised {type(error).__name__}: {error}") from error
