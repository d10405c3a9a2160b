"""What comes with Trellis passes the conformance suite, in full."""

from __future__ import annotations

import pytest

from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.testing.recommenders import find_failures


# A machine that is busy says nothing about who is slow.
@pytest.mark.filterwarnings("ignore::trellis.testing.recommenders.SlowRecommender")
@pytest.mark.parametrize("name", sorted(create_built_in_recommenders()))
def test_built_in_recommenders_conform(name: str) -> None:
    assert find_failures(lambda: create_built_in_recommenders()[name]) == []
