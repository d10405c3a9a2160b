"""`make test` combines the results of its two runs."""

from __future__ import annotations

import sys

import pytest

from all_tests import FAILED_TESTS, Suite, run, run_with_audit

NEVER = ["/no/such/program"]


def command(says: str, status: int) -> list[str]:
    """A program that says something and ends."""
    return [sys.executable, "-c", f"import sys; print({says!r}, flush=True); sys.exit({status})"]


def suite(name: str, status: int, again: int | None = None) -> Suite:
    """Tests that end so, and those of them that failed, which must not be run unless it is said how they end."""
    return Suite(command(name, status), NEVER if again is None else command(f"{name} again", again))


def test_success_of_both_runs_needs_no_rerun(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(suite("computing", 0), suite("waiting", 0)) == 0
    assert capfd.readouterr().out == "waiting\ncomputing\n"


@pytest.mark.parametrize("status", [0, 1, 5])
def test_failed_tests_are_rerun_and_the_rerun_decides(capfd: pytest.CaptureFixture[str], status: int) -> None:
    assert run(suite("computing", 0), suite("waiting", FAILED_TESTS, status)) == status
    assert run(suite("computing", FAILED_TESTS, status), suite("waiting", 0)) == status
    out = capfd.readouterr().out
    assert out.count("waiting again\n") == out.count("computing again\n") == 1


def test_a_second_failure_in_either_run_fails() -> None:
    assert run(suite("computing", FAILED_TESTS, 1), suite("waiting", FAILED_TESTS, 0)) == 1
    assert run(suite("computing", FAILED_TESTS, 0), suite("waiting", FAILED_TESTS, 1)) == 1


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_an_incomplete_run_is_not_rerun(status: int) -> None:
    assert run(suite("computing", 0), suite("waiting", status)) == status
    assert run(suite("computing", status), suite("waiting", 0)) == status


REFUSED = """
import os, pathlib
event = (
    '{"verb": "list", "user": {"username": "system:serviceaccount:kube-system:vpa-updater"},'
    ' "objectRef": {"resource": "secrets"}, "annotations": {"authorization.k8s.io/decision": "forbid"}}'
)
directory = pathlib.Path(os.environ["TESTBED_AUDIT"])
assert "vpa-updater" in (directory / "policy.yaml").read_text()
(directory / "kube-apiserver.log").write_text(event + chr(10))
"""


def test_a_refused_request_of_a_component_fails_the_run_whose_tests_pass(capfd: pytest.CaptureFixture[str]) -> None:
    waiting = Suite([sys.executable, "-c", REFUSED], NEVER)
    assert run_with_audit(suite("computing", 0), waiting) == 1
    assert "updater: refused: list secrets" in capfd.readouterr().out


def test_unused_rights_are_reported_only_if_all_tests_pass(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_with_audit(suite("computing", 0), suite("waiting", 0)) == 1
    assert "granted and not used" in capfd.readouterr().out
    assert run_with_audit(suite("computing", 3), suite("waiting", 0)) == 3
    assert "granted and not used" not in capfd.readouterr().out
