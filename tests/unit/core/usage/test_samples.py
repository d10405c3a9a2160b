"""Invalid samples are counted by reason and do not affect valid ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.usage_samples import Line, batch, pod
from trellis.base.errors import InternalError, InvalidInput
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.settings import Tuning, UsageSettings

START = 1_700_000_000.0
NAN = math.nan
INF = math.inf


def followed() -> UsageModel:
    model = UsageModel()
    model.track_pods("shop", [pod("good"), pod("bad", "other")], START)
    model.keep_totals([("shop", "web"), ("shop", "other")])
    model.keep_history([("shop", "web"), ("shop", "other")])
    return model


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (("bad", "app", START, -0.1, NAN), "NegativeSample"),
        (("bad", "app", START, NAN, -1.0), "NegativeSample"),
        (("bad", "app", START, -INF, -1.0), "NegativeSample"),
        (("bad", "app", START, 1e18, NAN), "ImplausibleSample"),
        (("bad", "app", START, INF, INF), "ImplausibleSample"),
        (("bad", "app", START, 100_001.0, 1e16), "ImplausibleSample"),
        (("bad", "app", 0.0, 0.1, 1e8), "ImplausibleSample"),
        (("bad", "app", -INF, 0.1, 1e8), "ImplausibleSample"),
        (("bad", "app", START + 301, 0.1, 1e8), "FutureSample"),
        (("bad", "app", INF, 0.1, 1e8), "FutureSample"),
        (("bad", "app", START, NAN, NAN), "EmptySample"),
        (("bad", "app", NAN, 0.1, 1e8), "EmptySample"),
        (("bad", "other", START, 0.1, 1e8), "UnknownContainer"),
        (("unknown", "app", START, 0.1, 1e8), "UnknownContainer"),
    ],
)
def test_an_invalid_sample_is_dropped_and_counted(line: Line, reason: str) -> None:
    model = followed()
    result = model.ingest(batch(line, ("good", "app", START, 0.1, 1e8)), START)
    assert result.accepted == 1
    assert result.dropped == {reason: 1}
    view = model.view()
    assert dict(zip([key.vpa for key in view.keys], view.count.tolist(), strict=True)) == {"web": 1, "other": 0}
    assert view.memory.is_empty(view.rows).tolist() == [False, True]


def test_the_valid_half_of_a_sample_is_accepted() -> None:
    model = followed()
    result = model.ingest(batch(("good", "app", START, -1.0, 1e8), ("bad", "app", START, 0.1, 1e18)), START)
    assert result.accepted == 2
    assert result.dropped == {"NegativeSample": 1, "ImplausibleSample": 1}
    assert result.memory[0] == 1e8
    assert result.cpu[1] == 0.1
    assert np.isnan([result.cpu[0], result.memory[1]]).all()


def test_late_and_repeated_samples_are_distinguished() -> None:
    model = followed()
    model.ingest(batch(("good", "app", START, 0.1, 1e8)), START)
    result = model.ingest(batch(("good", "app", START, 0.1, 1e8), ("good", "app", START - 1, 0.1, 1e8)), START)
    assert result.accepted == 0
    assert result.dropped == {"RepeatedSample": 1, "LateSample": 1}


def test_samples_that_are_ten_minutes_late_count_if_nothing_newer_came() -> None:
    model = followed()
    assert model.ingest(batch(("good", "app", START - 600, 0.1, 1e8)), START).accepted == 1


def test_an_hour_without_metrics_changes_nothing() -> None:
    model = followed()
    model.ingest(batch(("good", "app", START, 0.1, 1e8)), START)
    before = model.view().cpu.percentiles([0.9], model.view().rows).tolist()
    for minute in range(60):
        assert model.ingest(Samples.empty(), START + 60 * minute).accepted == 0
    assert model.view().cpu.percentiles([0.9], model.view().rows).tolist() == before
    assert model.ingest(batch(("good", "app", START + 3600, 0.1, 1e8)), START + 3600).accepted == 1


def test_a_model_that_follows_nothing_takes_nothing() -> None:
    model = UsageModel()
    assert model.ingest(batch(("good", "app", START, 0.1, 1e8)), START).dropped == {"UnknownContainer": 1}
    assert model.ingest(Samples.empty(), START).accepted == 0
    assert len(model.view()) == 0
    assert model.collect_garbage([], START) == []
    assert model.select_unsaved(START, 10).tolist() == []
    assert model.save_rows(np.zeros(0, dtype=np.int64), START) == []
    assert model.restore_all([]) == {}
    assert model.record_ooms([], START).kills == ()
    model.keep_totals([("shop", "web")])
    model.keep_history([("shop", "web")])
    model.track_pods("shop", [], START)


any_number = st.sampled_from([NAN, INF, -INF, -1.0, 0.0, 1e-300, 0.1, 1e8, 1e18, 1e308])
any_time = st.sampled_from([NAN, INF, -INF, 0.0, START - 600, START, START + 60, START + 300, START + 301, 1e300])


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["good", "bad", "?"]), st.just("app"), any_time, any_number, any_number))
    )
)
def test_no_sample_whatever_breaks_the_model(batches: list[list[Line]]) -> None:
    model = followed()
    for number, lines in enumerate(batches):
        result = model.ingest(batch(*lines), START + 60 * number)
        assert result.accepted + sum(result.dropped.values()) >= len(lines)
    view = model.view()
    for bank, rows in ((view.cpu, view.rows), (view.memory, view.rows), (view.cpu_total, view.total_rows)):
        assert np.isfinite(bank.weights(rows)).all()
        assert (bank.weights(rows) >= 0).all()
        assert np.isfinite(bank.percentiles([0.5, 0.9], rows)).all()
    copy = UsageModel()
    assert copy.restore_all(model.save_rows(view.rows, START)) == {}


def test_columns_of_different_lengths_are_a_bug() -> None:
    with pytest.raises(InternalError, match="lengths"):
        Samples(["a"], [], [], np.zeros(0), np.zeros(0), np.zeros(0))


def test_batches_are_joined_in_order() -> None:
    one, two = batch(("a", "x", 1.0, 2.0, 3.0)), batch(("b", "y", 4.0, 5.0, 6.0))
    joined = Samples.concatenate([one, Samples.empty(), two])
    assert (joined.pods, joined.containers, joined.namespaces) == (["a", "b"], ["x", "y"], ["shop", "shop"])
    assert (joined.times.tolist(), joined.cpu.tolist(), joined.memory.tolist()) == ([1, 4], [2, 5], [3, 6])
    assert len(Samples.concatenate([])) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory_window", 0.0),
        ("memory_window", NAN),
        ("memory_windows", 0),
        ("oom_bump_up_ratio", 0.9),
        ("oom_min_bump_up", -1.0),
        ("oom_min_bump_up", INF),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_their_name(field: str, value: float) -> None:
    for kind in (Tuning, UsageSettings):
        with pytest.raises(InvalidInput, match=field):
            kind(**{field: value})  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("field", ["cpu_half_life", "memory_half_life", "history_days"])
def test_settings_of_all_rows_are_checked_too(field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        UsageSettings(**{field: 0})
