"""One vocabulary of reasons: unique, documented, well formed."""

from __future__ import annotations

import pytest

import pages
from trellis.base.errors import InternalError
from trellis.base.reasons import Reason, Severity


def test_every_code_is_declared_once() -> None:
    twice = {
        code: [module for module, _ in declared] for code, declared in pages.find_reasons().items() if len(declared) > 1
    }
    assert twice == {}
    assert len(pages.find_reasons()) >= 15


def test_every_reason_is_on_its_page() -> None:
    page = pages.build_reasons_page()
    for code, ((_, reason),) in pages.find_reasons().items():
        assert f"| `{code}` | {reason.severity} | {reason.meaning} |" in page


@pytest.mark.parametrize("code", ["", "lower", "With Space", "With-Dash", "X", "A" * 64])
def test_a_code_that_no_event_or_condition_could_carry_is_refused(code: str) -> None:
    with pytest.raises(InternalError):
        Reason(code, "A sentence.")


def test_a_meaning_is_a_sentence_and_a_reason_prints_as_its_code() -> None:
    with pytest.raises(InternalError):
        Reason("Good", "no full stop")
    assert str(Reason("Good", "A sentence.", Severity.WARNING)) == "Good"
