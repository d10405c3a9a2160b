"""Forecast candidates: the same hour of earlier days, similar days, and the last hours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trellis.core.recommend.forecast.candidates import (
    FORECAST_CANDIDATES,
    SEASONAL_CANDIDATE,
    HistoryAtMoments,
    RecentHours,
    SeasonalHours,
    WeightedHistory,
)
from trellis.core.recommend.forecast.hour_histograms import weigh_similar_days
from trellis.core.recommend.forecast.normalized_history import compute_day_levels, normalize_hours, trim_unknown_hours
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.history.hours import Ring

BUCKET = 0.05
ALONE = WeightedHistory("season", ((SeasonalHours(), 1.0),))
LAST = WeightedHistory("last", ((RecentHours(), 1.0),))


def summed_up(*used: FloatColumn) -> Ring:
    """Hours in which no sample differs from another, (rows, measures, hours), in millicores."""
    return np.repeat(np.stack(used)[:, np.newaxis], 5, axis=1).astype(np.float32)


def predict(used: FloatColumn, what: WeightedHistory, fraction: float = 0.5) -> float:
    """What the hour is said to use that comes after these."""
    past = normalize_hours(summed_up(used))
    return float(what.quantiles(HistoryAtMoments(past, np.array([past.hours])), (fraction,))[0, 0, 0])


def days(*hours: FloatColumn) -> FloatColumn:
    return np.concatenate(hours)


BUSY = np.where((np.arange(24) >= 9) & (np.arange(24) < 18), 1000.0, 100.0)
QUIET = np.full(24, 100.0)


def test_the_coming_hour_is_predicted_from_the_same_hour_of_earlier_days() -> None:
    fortnight = np.tile(BUSY, 14)
    assert predict(days(fortnight, BUSY[:12]), ALONE) == pytest.approx(1000, rel=BUCKET)
    assert predict(days(fortnight, BUSY[:3]), ALONE) == pytest.approx(100, rel=BUCKET)


def test_neighbouring_hours_count() -> None:
    # At five to nine the hour before it was quiet for two weeks, the hour after it was busy.
    before_nine = days(np.tile(BUSY, 14), BUSY[:8])
    assert predict(before_nine, ALONE, 0.5) == pytest.approx(100, rel=BUCKET)
    assert predict(before_nine, ALONE, 0.9) == pytest.approx(1000, rel=BUCKET)


def test_the_last_hours_count_at_any_time_of_day() -> None:
    assert predict(days(np.tile(QUIET, 5), np.full(4, 500.0)), LAST) == pytest.approx(500, rel=0.2)


def test_a_season_without_history_leaves_its_share_to_the_last_hours() -> None:
    assert predict(np.full(6, 300.0), SEASONAL_CANDIDATE) == pytest.approx(300, rel=BUCKET)


def test_unknown_hours_have_no_quantiles() -> None:
    assert np.isnan(predict(np.full(30, np.nan), SEASONAL_CANDIDATE))


def test_unmeasured_hours_do_not_count() -> None:
    used = days(np.tile(BUSY, 14), BUSY[:12])
    used[24 * 10 : 24 * 12] = np.nan
    assert predict(used, ALONE) == pytest.approx(1000, rel=BUCKET)


def test_similar_days_count_more() -> None:
    # Seven busy days and seven quiet ones in turn; this one has been quiet so far, as the one before it was busy.
    past = normalize_hours(summed_up(days(np.tile(days(BUSY, QUIET), 7), BUSY, QUIET[:12])))
    counts = weigh_similar_days(past, np.array([past.hours]), 6)[0, 0]
    alike, unlike = counts[1::2], counts[::2]
    assert alike.min() > 5 * unlike.max()


def test_an_unknown_day_counts_less_than_a_similar_one() -> None:
    used = np.tile(BUSY, 10)
    used[24 * 6 : 24 * 8] = np.nan
    past = normalize_hours(summed_up(used))
    counts = weigh_similar_days(past, np.array([past.hours]), 5)[0, 0]
    assert 0 < counts[1] < counts[4]


def test_the_level_of_an_hour_is_that_of_the_day_ending_with_it() -> None:
    used = np.repeat([100.0, 200.0, 200.0], 24)[np.newaxis]
    levels = compute_day_levels(used, change_share=1.0)
    assert np.exp(levels.after[0, [23, 35, 47, 71]]) == pytest.approx([100, 150, 200, 200])
    assert np.exp(levels.before[0, [0, 24, 48]]) == pytest.approx([100, 100, 200])


def test_the_adjusted_level_of_an_hour_follows_a_change_that_the_hour_followed() -> None:
    used = np.repeat([100.0, 100.0, 200.0, 200.0], 24)[np.newaxis]
    levels = compute_day_levels(used, change_share=1.0)
    # The last hours of the second day lie before the change, those of the third behind it.
    assert np.exp(levels.adjusted[0, [40, 47]]) == pytest.approx([100, 100])
    assert np.exp(levels.adjusted[0, [49, 60, 71]]) == pytest.approx([200, 200, 200], rel=0.05)


def test_the_level_before_the_first_known_hour_is_that_of_this_hour() -> None:
    used = np.concatenate([np.full(5, np.nan), np.full(10, 50.0)])[np.newaxis]
    levels = compute_day_levels(used, change_share=1.0)
    assert np.exp(levels.before[0, 5]) == pytest.approx(50)


@pytest.mark.parametrize("quiet", [1, 4, 8])
def test_quiet_hours_after_days_without_any_are_no_quiet_day(quiet: int) -> None:
    since_midnight = days(np.full(9 - quiet, np.nan), BUSY[9 - quiet : 9])
    used = days(np.tile(BUSY, 7), np.full(5 * 24, np.nan), since_midnight)
    # By those hours alone it would be 350.
    assert predict(used, ALONE) > 750


def test_after_a_gap_the_level_is_new_once_a_day_is_known() -> None:
    means = days(np.full(48, 100.0), np.full(48, np.nan), np.full(36, 400.0))
    levels = np.exp(compute_day_levels(means[np.newaxis], 1.0).after[0])
    assert levels[[47, 60, 95]].tolist() == pytest.approx([100.0] * 3)
    assert levels[[96, 107, 119, 131]].tolist() == pytest.approx([112.5, 250.0, 400.0, 400.0])


def test_a_gap_within_a_day_eases_nothing() -> None:
    means = days(np.full(48, 100.0), np.full(20, np.nan), np.full(28, 400.0))
    levels = np.exp(compute_day_levels(means[np.newaxis], 1.0).after[0])
    # The day that ends with the first hour after it has 4 known hours of the one before, and this one.
    assert levels[67:70].tolist() == pytest.approx([100.0, (3 * 100.0 + 400.0) / 4, (2 * 100.0 + 2 * 400.0) / 4])


def test_levels_of_a_row_do_not_depend_on_gaps_of_other_rows() -> None:
    steady = np.concatenate([np.linspace(100.0, 400.0, 24), np.full(108, 200.0)])
    gapped = days(np.full(48, 100.0), np.full(48, np.nan), np.full(36, 400.0))
    alone, together = compute_day_levels(steady[np.newaxis], 1.0), compute_day_levels(np.stack([steady, gapped]), 1.0)
    assert np.array_equal(alone.after[0], together.after[0])


def test_usage_beyond_the_scale_is_still_a_bound() -> None:
    # Of two amounts that are a million times apart, the lower is taken for more than it is, never for less.
    used = np.where(np.arange(240) % 24 < 12, 1e6, 1.0)
    assert predict(used, ALONE, 0.9) >= 1.0


used_hours = arrays(np.float64, (2, 96), elements=st.floats(0.1, 1e4), fill=st.just(100.0))


@settings(max_examples=15, deadline=None)
@given(used_hours, st.integers(60, 90))
def test_later_hours_never_change_earlier_quantiles(used: FloatColumn, moment: int) -> None:
    changed = used.copy()
    changed[:, moment:] *= 3.0
    for candidate in FORECAST_CANDIDATES:
        before, after = (
            candidate.quantiles(HistoryAtMoments(normalize_hours(summed_up(*item)), np.arange(50, 96)), (0.9,))[
                0, :, moment - 50
            ]
            for item in (used, changed)
        )
        # The scale of a row ends at its highest usage, so that buckets may be cut elsewhere.
        assert before == pytest.approx(after, rel=2 * BUCKET)


@settings(max_examples=15, deadline=None)
@given(used_hours)
def test_quantiles_of_many_moments_equal_those_of_each(used: FloatColumn) -> None:
    past = normalize_hours(summed_up(*used))
    moments = np.arange(60, 96)
    for candidate in FORECAST_CANDIDATES:
        together = candidate.quantiles(HistoryAtMoments(past, moments), (0.5, 0.9))
        for number in (0, 20, 35):
            alone = candidate.quantiles(HistoryAtMoments(past, moments[[number]]), (0.5, 0.9))
            assert alone[:, :, 0].ravel() == pytest.approx(together[:, :, number].ravel(), rel=1e-3)


def test_trimming_unknown_hours_changes_nothing() -> None:
    used = days(np.full(400, np.nan), np.tile(BUSY, 6), BUSY[:12])
    assert trim_unknown_hours(summed_up(used)).shape[-1] == 6 * 24 + 12 + 1
    assert predict(used[399:], ALONE) == predict(used, ALONE)
