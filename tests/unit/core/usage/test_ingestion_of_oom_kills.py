"""Out-of-memory kills count once each, as a peak above what the container had."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from support.builders.usage_samples import batch, kill, memory_weights, peak, pod, row
from trellis.core.usage.model import UsageModel
from trellis.core.usage.settings import Tuning, UsageSettings

START = 1_700_000_000.0
DAY = 86_400.0
MIB = 2.0**20


@pytest.fixture
def model() -> UsageModel:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1", memory=1e9)], START)
    return model


def use(model: UsageModel, time: float, memory: float) -> None:
    model.ingest(batch(("web-1", "app", time, math.nan, memory)), time)


def needed(model: UsageModel, *kills_at: float, memory: float = math.nan) -> list[float]:
    return [
        value
        for time in kills_at
        for value in model.record_ooms([kill("web-1", time, memory)], time + 1).memory.tolist()
    ]


def test_a_kill_counts_as_a_fifth_more_than_the_request(model: UsageModel) -> None:
    assert needed(model, START, memory=2e9) == [2.4e9]


def test_a_kill_counts_as_at_least_100_mib_more(model: UsageModel) -> None:
    assert needed(model, START, memory=1e8) == [1e8 + 100 * MIB]


def test_usage_above_the_request_is_bumped_up(model: UsageModel) -> None:
    use(model, START, 3e9)
    assert needed(model, START + 60, memory=1e9) == [3.6e9]


def test_a_kill_of_unknown_memory_counts_from_the_request(model: UsageModel) -> None:
    assert needed(model, START) == [1.2e9]


def test_without_request_and_samples_a_kill_counts_as_the_minimum_bump() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    assert needed(model, START) == [100 * MIB]
    assert peak(model) > 100 * MIB


def test_ratio_and_least_bump_can_be_set_and_neutralised() -> None:
    model = UsageModel(UsageSettings(oom_bump_up_ratio=1.0, oom_min_bump_up=0.0))
    model.track_pods("shop", [pod("web-1")], START)
    assert needed(model, START, memory=1e9) == [1e9]
    model.tune("shop", "web", "app", Tuning(oom_bump_up_ratio=2.0, oom_min_bump_up=0.0))
    assert needed(model, START + 1, memory=1e9) == [2e9]


def test_a_kill_replaces_the_peak_of_its_window(model: UsageModel) -> None:
    use(model, START, 9e8)
    needed(model, START + 60, memory=1e9)
    assert len(memory_weights(model)) == 1
    assert peak(model) > 1.2e9


def test_repeated_kills_do_not_run_away(model: UsageModel) -> None:
    use(model, START, 9e8)
    assert needed(model, *(START + 60 * minute for minute in range(1, 50)), memory=1e9) == [1.2e9] * 49
    assert len(memory_weights(model)) == 1


def test_usage_after_a_kill_counts_only_above_the_estimated_need(model: UsageModel) -> None:
    needed(model, START, memory=1e9)
    before = memory_weights(model)
    use(model, START + 60, 1.1e9)
    assert memory_weights(model) == before
    use(model, START + 120, 2e9)
    assert len(memory_weights(model)) == 1
    assert peak(model) > 2e9


def test_a_sample_before_a_kill_is_late_and_one_after_an_old_kill_is_not(model: UsageModel) -> None:
    needed(model, START + 60)
    assert model.ingest(batch(("web-1", "app", START, math.nan, 1e8)), START + 60).dropped == {"LateSample": 1}
    needed(model, START - 60)
    assert model.ingest(batch(("web-1", "app", START, math.nan, 9e9)), START + 60).accepted == 1


def test_each_kill_counts_once_however_often_it_is_reported(model: UsageModel) -> None:
    first = model.record_ooms([kill("web-1", START, 1e9), kill("web-1", START, 1e9)], START)
    weights = memory_weights(model)
    second = model.record_ooms([kill("web-1", START, 9e9)], START + 60)
    assert (len(first.kills), first.dropped) == (1, {"KnownOomKill": 1})
    assert (len(second.kills), second.dropped) == (0, {"KnownOomKill": 1})
    assert memory_weights(model) == weights


def test_a_kill_under_the_limit_of_a_missed_resize_is_dropped(model: UsageModel) -> None:
    weights = memory_weights(model)
    result = model.record_ooms([msgspec.structs.replace(kill("web-1", START, math.nan), old_limit=True)], START)
    assert (len(result.kills), result.dropped) == (0, {"OomKillUnderOldLimit": 1})
    assert memory_weights(model) == weights


def test_kills_of_one_container_that_come_together_all_count(model: UsageModel) -> None:
    result = model.record_ooms([kill("web-1", START + n, 1e9 + n) for n in range(3)], START + 3)
    assert result.memory.tolist() == [1.2e9, 1.2e9 + 1, 1.2e9 + 2]
    assert model.view().last_oom.tolist() == [START + 2]


def test_more_kills_than_are_stored_are_still_distinguished(model: UsageModel) -> None:
    times = [START + 60 * n for n in range(100)]
    assert len(needed(model, *times)) == 100
    assert needed(model, *times) == []


def test_a_kill_long_before_the_last_sample_is_too_old(model: UsageModel) -> None:
    use(model, START, 1e8)
    result = model.record_ooms([kill("web-1", START - DAY - 1, 1e9), kill("web-1", START - DAY + 1, 1e9)], START)
    assert result.dropped == {"OldOomKill": 1}
    assert result.memory.tolist() == [1.2e9]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (kill("web-9", START), "UnknownContainer"),
        (kill("web-1", START, container="init"), "UnknownContainer"),
        (kill("web-1", START, uid="of another pod of that name"), "UnknownContainer"),
        (kill("web-1", math.nan), "EmptySample"),
        (kill("web-1", START + 301), "FutureSample"),
        (kill("web-1", START, -1.0), "ImplausibleSample"),
        (kill("web-1", START, 1e18), "ImplausibleSample"),
        (kill("web-1", START, math.inf), "ImplausibleSample"),
        (kill("web-1", 0.0, 1e9), "ImplausibleSample"),
    ],
)
def test_an_invalid_kill_is_dropped_and_counted(model: UsageModel, result: object, reason: str) -> None:
    record = model.record_ooms([result, kill("web-1", START, 1e9)], START)  # type: ignore[list-item]
    assert record.dropped == {reason: 1}
    assert record.memory.tolist() == [1.2e9]


def test_a_kill_of_a_departed_pod_counts_for_ten_minutes(model: UsageModel) -> None:
    model.track_pods("shop", [], START)
    model.collect_garbage([("shop", "web")], START + 599)
    assert model.record_ooms([kill("web-1", START, 1e9)], START + 599).memory.tolist() == [1.2e9]
    model.collect_garbage([("shop", "web")], START + 600)
    assert model.record_ooms([kill("web-1", START + 1, 1e9)], START + 600).dropped == {"UnknownContainer": 1}


def test_a_kill_of_a_pod_whose_name_is_reused_counts(model: UsageModel) -> None:
    model.track_pods("shop", [pod("web-1", uid="second", memory=4e9)], START + 60)
    assert model.record_ooms([kill("web-1", START, 1e9)], START + 60).memory.tolist() == [1.2e9]
    assert model.record_ooms([kill("web-1", START + 60, uid="second")], START + 60).memory.tolist() == [4.8e9]


def test_a_row_with_a_kill_is_saved_before_all_others(model: UsageModel) -> None:
    model.track_pods("shop", [pod("a", "first"), pod("web-1", memory=1e9), pod("z", "last")], START)
    model.ingest(batch(("a", "app", START, 1.0, 1e8)), START)
    model.ingest(batch(("z", "app", START + 1, 1.0, 1e8)), START + 1)
    model.record_ooms([kill("web-1", START)], START + 2)
    unsaved = model.select_unsaved(START + 3, 10)
    assert [model.view(np.array([number])).keys[0].vpa for number in unsaved.tolist()] == ["web", "first", "last"]
    assert unsaved[0] == row(model)[0]
