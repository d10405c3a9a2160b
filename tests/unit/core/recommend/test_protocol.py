"""The input of a recommender: rows in columns."""

from __future__ import annotations

import math
import pickle
import re
import textwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from trellis.core.recommend import protocol
from trellis.core.recommend.protocol import CPU, MEMORY, Estimates, Rows
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.usage.model import UsageModel
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod
from trellis.testing.estimates import fingerprint, request_estimates, require_equal, select_rows
from trellis.testing.recommenders import find_failures
from trellis.testing.rows import DAY, GIB, HOUR, NOW, UsageExample, build_rows, example_rows
from trellis.testing.usage import any_rows


def pods(*facts: tuple[float, float, float]) -> Rows:
    """One row, fed by pods that started then and request so much."""
    model = UsageModel()
    model.track_pods(
        "shop",
        [
            TrackedPod("shop", f"web-{at}", f"u{at}", "web", True, (TrackedContainer("app", memory, cpu),), started)
            for at, (started, cpu, memory) in enumerate(facts)
        ],
        NOW,
    )
    view = model.view()
    return Rows(view, np.ones(len(view)))


def test_requests_and_start_time_are_of_the_newest_pod() -> None:
    rows = pods((NOW - 100, 500.0, 1e9), (NOW - 10, 250.0, math.nan), (NOW - 50, 100.0, 3e9))
    assert rows.started.tolist() == [NOW - 10]
    assert rows.age(NOW).tolist() == [10.0]
    assert rows.requests[CPU].tolist() == [250.0]
    assert np.isnan(rows.requests[MEMORY]).all()


def test_of_pods_that_started_together_the_highest_requests_count() -> None:
    rows = pods((NOW, 500.0, 1e9), (NOW, 250.0, 2e9), (math.nan, 900.0, 9e9))
    assert rows.requests.tolist() == [[500.0], [2e9]]


def test_without_a_pod_there_is_neither_start_nor_request() -> None:
    rows = build_rows([UsageExample([0.1], [1e8], age=math.nan, requests=(100.0, 1e8))])
    assert np.isnan(rows.started).all()
    assert np.isnan(rows.requests).all()
    assert np.isnan(rows.age(NOW)).all()


def test_an_unknown_start_time_is_none_and_the_request_still_counts() -> None:
    rows = pods((math.nan, 250.0, 1e9))
    assert np.isnan(rows.started).all()
    assert rows.requests.tolist() == [[250.0], [1e9]]


def test_hours_are_in_millicores_and_bytes_and_nan_without_history() -> None:
    used = UsageExample([0.5] * 30, [GIB] * 30)
    hours = build_rows([used, UsageExample()]).hours(NOW)
    assert hours.shape == (2, 2, 5, 35 * 24)
    assert hours[0, CPU, :, -1].tolist() == [500.0] * 5
    assert hours[0, MEMORY, 0, -29:].tolist() == [GIB] * 29
    assert np.isnan(hours[1]).all()
    assert np.isnan(hours[0, :, :, :-30]).all()
    assert np.isnan(build_rows([used], history=False).hours(NOW)).all()


def test_hours_of_selected_rows_equal_those_of_all() -> None:
    rows = example_rows(history=True)
    every = rows.hours(NOW)
    assert np.array_equal(rows.hours(NOW, slice(3, 9)), every[3:9], equal_nan=True)
    assert np.array_equal(rows.hours(NOW, np.array([8, 2])), every[[8, 2]], equal_nan=True)


def test_percentiles_are_nothing_where_nothing_was_sampled() -> None:
    result = build_rows([UsageExample([0.5] * 5), UsageExample()]).percentiles(CPU, [0.5, 1.0])
    assert result[:, 0] == pytest.approx([500.0, 500.0], rel=0.06)
    assert np.isnan(result[:, 1]).all()
    assert np.isnan(build_rows([UsageExample([0.5] * 5)]).percentiles(MEMORY, [0.5])).all()


def test_the_last_kill_is_reported() -> None:
    rows = build_rows([UsageExample([0.4] * 99, [4e8] * 99, killed_ago=3 * HOUR), UsageExample([0.4] * 99, [4e8] * 99)])
    assert rows.last_oom[0] == NOW - 3 * HOUR
    assert math.isnan(rows.last_oom[1])


def sent(rows: Rows, *, history: bool = True) -> Rows:
    """The rows as they arrive in another process."""
    copy: Rows = pickle.loads(pickle.dumps(Rows(rows.usage.detach(history=history), rows.containers)))  # noqa: S301
    return copy


@settings(max_examples=20, deadline=None)
@given(any_rows())
def test_detached_rows_have_the_same_usage(rows: Rows) -> None:
    copy = sent(rows)
    assert np.array_equal(copy.hours(NOW), rows.hours(NOW), equal_nan=True)
    assert np.array_equal(copy.requests, rows.requests, equal_nan=True)
    require_equal(
        request_estimates(DefaultRecommender(), rows), request_estimates(DefaultRecommender(), copy), rows, "sent away"
    )


def test_only_the_requested_rows_are_detached() -> None:
    many = build_rows([UsageExample([0.1] * 4, [1e8] * 4, age=at * DAY) for at in range(300)], history=False)
    one = len(pickle.dumps(sent(select_rows(many, [7]))))
    assert one < len(pickle.dumps(sent(many))) / 50


def test_history_is_detached_only_for_recommenders_that_read_it() -> None:
    rows = example_rows(history=True)
    assert np.isnan(sent(rows, history=False).hours(NOW)).all()
    assert len(pickle.dumps(sent(rows, history=False))) < len(pickle.dumps(sent(rows))) / 4


def test_a_fingerprint_changes_with_anything_in_the_rows() -> None:
    rows = sent(example_rows(history=True))
    before = fingerprint(rows)
    assert fingerprint(sent(rows)) == before
    rows.usage.last_oom[0] = NOW
    assert fingerprint(rows) != before


def test_the_example_in_the_docstring_is_a_recommender() -> None:
    code = re.search(r"\n\n((?:    .*\n|\n)+)", protocol.__doc__ or "")
    assert code is not None
    result: dict[str, Any] = {}
    exec(textwrap.dedent(code[1]), result)  # noqa: S102 - our own documentation
    failures = [failure for failure in find_failures(result["Highest"]) if "pickled" not in failure.message]
    assert failures == []


def test_estimates_have_names_for_their_parts() -> None:
    estimates = Estimates.from_bounds(np.array([[1.0], [2.0], [3.0]]), np.array([[4.0], [5.0], [6.0]]), {"why": ["so"]})
    assert [item.tolist() for item in (estimates.lower, estimates.target, estimates.upper)] == [
        [[1.0], [4.0]],
        [[2.0], [5.0]],
        [[3.0], [6.0]],
    ]
    assert estimates.explanation == {"why": ["so"]}
