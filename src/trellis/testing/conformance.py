"""The machinery that the conformance suites share: checks, failures and the error for a broken rule.

A rule is a function that raises `Nonconformance` when it is broken. Its name and docstring are those of the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

# The rule of a suite: a function of what is tested.
R = TypeVar("R", bound=Callable[..., object])


class Nonconformance(AssertionError):
    """A plug-in breaks a rule of its protocol. The message says how."""


class Check(msgspec.Struct, Generic[R], frozen=True):
    """One rule: its name, its description, and a function that raises `Nonconformance` when it is broken."""

    name: str
    description: str
    run: R


class Failure(msgspec.Struct, frozen=True):
    """A broken rule: the name of its check, and the message."""

    check: str
    message: str


def make_checks(*rules: R) -> tuple[Check[R], ...]:
    return tuple(
        Check(getattr(rule, "__name__", "").replace("_", "-"), (rule.__doc__ or "").strip(), rule) for rule in rules
    )


def collect_failures(checks: Iterable[Check[R]], run: Callable[[Check[R]], object]) -> list[Failure]:
    """A failure for each check that raises `Nonconformance`."""
    failures: list[Failure] = []
    for check in checks:
        try:
            run(check)
        except Nonconformance as error:
            failures.append(Failure(check.name, str(error)))
    return failures


def parametrized_test(checks: Iterable[Check[R]], run: Callable[[Check[R]], object]) -> Callable[..., None]:
    """A test function for pytest, with a case for each check."""
    import pytest  # noqa: PLC0415 - the rules do without it

    def test_conformance(check: Check[R]) -> None:
        run(check)

    test: Callable[..., None] = pytest.mark.parametrize("check", list(checks), ids=lambda check: check.name)(
        test_conformance
    )
    return test
