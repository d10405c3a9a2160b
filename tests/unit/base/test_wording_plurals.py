"""Numbers of things, as people say them."""

from __future__ import annotations

import pytest

from trellis.base.wording import choose_form, pluralize


@pytest.mark.parametrize(("count", "expected"), [(0, "0 chunks"), (1, "1 chunk"), (1234, "1,234 chunks")])
def test_one_is_spoken_of_in_the_singular(count: int, expected: str) -> None:
    assert pluralize(count, "chunk") == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "have"), (1, "has"), (2, "have")])
def test_a_verb_form_matches_the_count(count: int, expected: str) -> None:
    assert choose_form(count, "has", "have") == expected
