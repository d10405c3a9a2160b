"""Scores at many margins equal the scores at each; curves compare rules by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.recommend.evaluation.margin_curves import MARGIN_FACTORS, SHIPPED_MARGIN, build_margin_curve
from trellis.core.recommend.evaluation.replay import ReplayedUsage, ReplayResult
from trellis.core.recommend.evaluation.scores import SizingScores, compute_scores, score_margins


def world(seed: int, weights: bool) -> tuple[ReplayedUsage, ReplayResult]:
    """Usage with gaps, and targets of which some are missing, and one is 0."""
    draw = np.random.default_rng(seed)
    values = draw.lognormal(0.0, 0.6, (12, 4, 3))
    values[draw.random(values.shape) < 0.2] = np.nan
    targets = draw.lognormal(0.2, 0.3, (12, 3))
    targets[:2], targets[5, 0] = np.nan, 0.0
    shares = draw.uniform(0.1, 1.0, 4) if weights else None
    changes = draw.random((12, 3)) < 0.3
    return ReplayedUsage(values, weights=shares), ReplayResult(targets, changes, np.zeros((12, 3)))


@given(seed=st.integers(0, 10_000), weights=st.booleans(), warm=st.integers(0, 6))
def test_scores_at_many_margins_equal_scores_at_each(seed: int, weights: bool, warm: int) -> None:
    usage, replayed = world(seed, weights)
    scored = np.arange(12)[:, np.newaxis] >= np.full(3, warm)
    together = score_margins(usage, replayed, MARGIN_FACTORS, scored)
    alone = compute_scores(usage, replayed.with_margins(MARGIN_FACTORS), scored)
    for name in SizingScores.__struct_fields__:
        np.testing.assert_allclose(getattr(together, name), getattr(alone, name), rtol=1e-9, atol=1e-12)


def test_a_value_exactly_at_a_margin_is_not_above_it() -> None:
    usage = ReplayedUsage(np.full((1, 1, 1), float(MARGIN_FACTORS[30])))
    result = score_margins(
        usage, ReplayResult(np.ones((1, 1)), np.zeros((1, 1), np.bool_), np.zeros((1, 1))), MARGIN_FACTORS
    )
    assert result.time_over[:, 0].tolist() == [1.0] * 30 + [0.0] * (len(MARGIN_FACTORS) - 30)


def test_a_rule_compared_with_itself_is_equal_at_its_own_margin() -> None:
    usage, replayed = world(1, weights=False)
    scores = score_margins(usage, replayed, MARGIN_FACTORS)
    result = build_margin_curve("same", scores, scores, np.ones(3))
    assert MARGIN_FACTORS[SHIPPED_MARGIN] == pytest.approx(1.0)
    assert result.shipped.footprint == pytest.approx(1.0)
    assert result.shipped.time_over == pytest.approx(1.0)
    assert result.worse == 0.0
    assert (np.diff(result.time_over) <= 0).all()
    assert (np.diff(result.footprint) >= 0).all()
