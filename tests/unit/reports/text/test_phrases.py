from __future__ import annotations

import pytest

from trellis.reports.text.phrases import spell_code


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("ResizedInPlace", "resized in place"),
        ("OOMKilled", "OOM killed"),
        ("ScaledByHPA", "scaled by HPA"),
        ("OutsideRange", "outside range"),
        ("", ""),
    ],
)
def test_the_code_of_a_reason_is_spelled_in_words(code: str, words: str) -> None:
    assert spell_code(code) == words
