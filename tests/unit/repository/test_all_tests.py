"""What `make test` makes of two runs at once."""

from __future__ import annotations

import sys

import pytest

import all_tests


def command(says: str, status: int) -> list[str]:
    """A program that says something and ends."""
    return [sys.executable, "-c", f"import sys; print({says!r}, flush=True); sys.exit({status})"]


def never() -> list[str]:
    """A program that must not be run."""
    return ["/no/such/program"]


def test_all_is_well_if_both_runs_are_and_nothing_is_run_again(capfd: pytest.CaptureFixture[str]) -> None:
    assert all_tests.run(command("computed", 0), command("waited", 0), never()) == 0
    assert capfd.readouterr().out == "waited\ncomputed\n"


def test_tests_that_failed_on_the_control_plane_are_run_again_and_that_decides(
    capfd: pytest.CaptureFixture[str],
) -> None:
    failed = command("waited", all_tests.FAILED_TESTS)
    assert all_tests.run(command("computed", 0), failed, command("again", 0)) == 0
    assert all_tests.run(command("computed", 0), failed, command("again", 1)) == 1
    assert all_tests.run(command("computed", 0), failed, command("nothing to run", 5)) == 5
    assert capfd.readouterr().out.count("again\n") == 2


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_a_run_that_did_not_run_all_tests_is_never_run_again(status: int) -> None:
    assert all_tests.run(command("computed", 0), command("waited", status), never()) == status


def test_what_fails_without_a_control_plane_fails_whatever_the_other_says() -> None:
    assert all_tests.run(command("computed", 1), command("waited", 0), never()) == 1
    assert all_tests.run(command("computed", 1), command("waited", 1), command("again", 0)) == 1
