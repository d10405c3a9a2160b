"""Saved rows are restored: no sample is lost or counts twice."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from support.builders.usage_samples import batch, kill, memory_weights, peak, pod, row
from support.oracles.containers import SlowContainer, SlowRow
from trellis.base.errors import InvalidCheckpoint
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel

START = 1_700_000_000.0
DAY = 86_400.0
WEB = ("shop", "web")


def lived(days: int = 3) -> UsageModel:
    """A model with some days of history of two pods."""
    model = UsageModel()
    model.track_pods("shop", [pod("web-1", memory=1e9), pod("web-2", memory=1e9)], START)
    for hour in range(24 * days):
        now = START + 3600 * hour
        lines = [(f"web-{n}", "app", now, 0.1 * n + 0.01 * (hour % 24), 1e8 * n + 1e6 * hour) for n in (1, 2)]
        model.ingest(batch(*lines), now)
    return model


def saved(model: UsageModel, now: float) -> SavedRow:
    (result,) = model.save_rows(row(model), now)
    return result


def test_a_saved_row_equals_the_reference_without_the_peaks_of_open_windows() -> None:
    slow = SlowRow()
    containers = {"a": SlowContainer(slow), "b": SlowContainer(slow)}
    model = UsageModel()
    model.track_pods("shop", [pod("a"), pod("b")], START)
    for hour in range(40):
        for name, container in containers.items():
            time, memory = START + 3600 * hour, 1e8 + 3e7 * ((hour * 7) % 11)
            if name == "a" or hour < 10:
                model.ingest(batch((name, "app", time, 0.1, memory)), time)
                container.add_cpu(time, 0.1)
                container.add_memory(time, memory)
    now = START + 3600 * 40  # the window of b is over, that of a is not
    result = saved(model, now)
    for container in containers.values():
        container.without_peak(now)
    assert result.memory.weights == slow.memory.saved()
    assert result.memory.total == pytest.approx(slow.memory.total)
    assert result.memory.reference == slow.memory.reference
    assert result.cpu.weights == slow.cpu.saved()
    assert (result.first, result.last, result.count) == (slow.first, slow.last, slow.count)
    assert result.updated == now


def test_saving_changes_nothing() -> None:
    model = lived()
    before = memory_weights(model)
    saved(model, START + 3 * DAY)
    assert memory_weights(model) == before


def test_the_last_peak_of_a_departed_pod_is_saved() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.ingest(batch(("web-1", "app", START, 0.1, 1e9)), START)
    assert saved(model, START + 60).memory.weights == {}
    model.track_pods("shop", [], START + 120)
    assert list(saved(model, START + 120).memory.weights.values()) == [10_000]


def test_a_restored_row_equals_the_saved_one() -> None:
    model = lived()
    now = START + 9 * DAY  # all windows are over
    copy = UsageModel()
    copy.restore(saved(model, now))
    view, old = copy.view(row(copy)), model.view(row(model))
    assert (view.first.tolist(), view.last.tolist(), view.count.tolist()) == (
        old.first.tolist(),
        old.last.tolist(),
        old.count.tolist(),
    )
    for fraction in (0.5, 0.9, 0.95):
        assert view.cpu.percentiles([fraction], view.rows) == old.cpu.percentiles([fraction], old.rows)
        assert view.memory.percentiles([fraction], view.rows) == old.memory.percentiles([fraction], old.rows)


def test_samples_after_a_restart_merge_with_the_history() -> None:
    complete, now = lived(4), START + 3 * DAY
    first = lived(3)
    copy = UsageModel()
    copy.restore(saved(first, now - 3600))
    copy.track_pods("shop", [pod("web-1"), pod("web-2")], now)
    for hour in range(72, 96):
        time = START + 3600 * hour
        lines = [(f"web-{n}", "app", time, 0.1 * n + 0.01 * (hour % 24), 1e8 * n + 1e6 * hour) for n in (1, 2)]
        copy.ingest(batch(*lines), time)
    assert copy.view().count.tolist() == complete.view().count.tolist()
    assert copy.view().first.tolist() == [START]
    for fraction in (0.503, 0.903, 0.953):
        own = copy.view().cpu.percentiles([fraction], row(copy))[0, 0]
        assert own == pytest.approx(complete.view().cpu.percentiles([fraction], row(complete))[0, 0], rel=0.06)


def test_a_late_checkpoint_is_merged_into_its_row() -> None:
    stored = saved(lived(), START + 9 * DAY)
    model = UsageModel()
    now = START + 9 * DAY
    model.track_pods("shop", [pod("web-3")], now)
    model.ingest(batch(("web-3", "app", now, 0.1, 5e9)), now)
    model.restore(stored)
    assert model.view().count.tolist() == [stored.count + 1]
    assert peak(model) > 5e9
    assert len(memory_weights(model)) == len(stored.memory.weights) + 1


def test_a_checkpoint_that_is_observed_again_does_not_count_again() -> None:
    stored = saved(lived(), START + 9 * DAY)
    model = UsageModel()
    assert model.restore_all([stored, stored]) == {}
    before = memory_weights(model)
    model.restore(stored)
    model.restore(msgspec.structs.replace(stored, updated=START + 10 * DAY))
    assert memory_weights(model) == before
    assert model.view().count.tolist() == [stored.count]


def test_an_own_checkpoint_is_not_restored_again() -> None:
    model = lived()
    now = START + 3 * DAY
    stored = saved(model, now)
    model.mark_saved(row(model), now)
    before = memory_weights(model)
    model.restore(stored)
    assert memory_weights(model) == before


def test_a_row_is_restored_before_its_pods_are_tracked() -> None:
    model = UsageModel()
    model.restore(saved(lived(), START + 9 * DAY))
    assert model.view().keys == [RowKey("shop", "web", "app")]
    model.track_pods("shop", [pod("web-7")], START + 9 * DAY)
    assert model.sizes().rows == 1


def test_a_restart_after_a_long_time_does_not_forget_before_pods_are_followed() -> None:
    model = UsageModel()
    model.restore(saved(lived(), START + 9 * DAY))
    now = START + 60 * DAY
    assert model.collect_garbage([WEB], now) == []
    model.track_pods("shop", [pod("web-7")], now + 60)
    assert model.collect_garbage([WEB], now + 3600) == []


def test_kills_in_the_checkpoint_do_not_count_again_after_a_restart() -> None:
    model = lived(1)
    now = START + DAY
    model.record_ooms([kill("web-1", now - 60)], now)
    copy = UsageModel()
    copy.restore(saved(model, now))
    copy.track_pods("shop", [pod("web-1", memory=1e9)], now + 30)
    result = copy.record_ooms([kill("web-1", now - 60), kill("web-1", now), kill("web-1", now + 1)], now + 30)
    assert result.dropped == {"KnownOomKill": 2}
    assert len(result.kills) == 1


def test_a_kill_in_a_window_that_runs_outlives_a_restart() -> None:
    model = lived(1)
    now = START + DAY
    model.record_ooms([kill("web-1", now - 60, 5e9)], now)
    copy = UsageModel()
    copy.restore(saved(model, now))
    assert peak(copy) > 6e9
    assert copy.view().memory.percentiles([1.0], row(copy))[0, 0] == peak(model)


def test_the_peak_below_a_kill_is_not_subtracted_twice() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.ingest(batch(("web-1", "app", START, 0.1, 1e8)), START)
    model.record_ooms([kill("web-1", START + 60, 5e9)], START + 60)
    view = model.view()
    assert saved(model, START + 60).memory.total == pytest.approx(view.memory.totals(view.rows)[0])


def test_a_window_in_which_usage_passed_the_kill_is_not_saved() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.record_ooms([kill("web-1", START, 1e9)], START)
    model.ingest(batch(("web-1", "app", START + 60, 0.1, 5e9)), START + 60)
    assert saved(model, START + 60).memory.weights == {}


def test_many_rows_are_saved_at_once_and_in_order() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod(f"p-{n}", f"vpa-{n}", ("app", "proxy")) for n in range(30)], START)
    lines = [(f"p-{n}", name, START, 0.01 * (n + 1), 1e7 * (n + 1)) for n in range(30) for name in ("app", "proxy")]
    model.ingest(batch(*lines), START)
    rows = model.view().rows[::-1]
    result = model.save_rows(rows, START + 2 * DAY)
    assert [item.key for item in result] == model.view(rows).keys
    assert [item.memory.weights for item in result] == [
        save_row.memory.weights for n in rows for save_row in model.save_rows(np.array([n]), START + 2 * DAY)
    ]
    copy = UsageModel()
    copy.restore_all(result)
    order = copy.find_rows([item.key for item in result])
    assert copy.view().cpu.percentiles([0.9], order).tolist() == model.view().cpu.percentiles([0.9], rows).tolist()


class TestDue:
    """Which rows are to be saved."""

    def test_rows_wait_in_the_order_in_which_they_changed(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod(f"p-{n}", f"vpa-{n}") for n in range(3)], START)
        for second, n in enumerate([2, 0, 1, 2]):
            model.ingest(batch((f"p-{n}", "app", START + second, 0.1, 1e8)), START + second)
        assert [key.vpa for key in model.view(model.select_unsaved(START + 9, 9)).keys] == ["vpa-2", "vpa-0", "vpa-1"]
        assert [key.vpa for key in model.view(model.select_unsaved(START + 9, 2)).keys] == ["vpa-2", "vpa-0"]

    def test_a_row_that_is_saved_is_not_due_until_it_changes(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod("web-1")], START)
        model.ingest(batch(("web-1", "app", START, 0.1, 1e8)), START)
        model.mark_saved(model.select_unsaved(START, 9), START)
        assert model.select_unsaved(START + 60, 9).tolist() == []
        model.ingest(batch(("web-1", "app", START + 60, 0.1, 1e8)), START + 60)
        assert model.select_unsaved(START + 60, 9).tolist() == row(model).tolist()

    def test_what_came_while_a_row_was_written_is_due(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod("web-1")], START)
        model.ingest(batch(("web-1", "app", START, 0.1, 1e8)), START)
        model.save_rows(row(model), START)
        model.record_ooms([kill("web-1", START + 30)], START + 30)
        model.mark_saved(row(model), START)
        assert model.select_unsaved(START + 60, 9).tolist() == row(model).tolist()

    def test_a_row_whose_pod_departs_is_due_for_the_peak_that_no_checkpoint_has(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod("web-1"), pod("web-2"), pod("idle-1", "idle")], START)
        model.ingest(batch(*((f"web-{n}", "app", START, 0.1, 1e8) for n in (1, 2))), START)
        model.mark_saved(row(model), START)
        model.track_pods("shop", [pod("web-2"), pod("idle-1", "idle")], START + 60)
        assert model.select_unsaved(START + 60, 9).tolist() == row(model).tolist()
        model.mark_saved(row(model), START + 60)
        model.track_pods("shop", [pod("web-2")], START + 120)
        assert model.select_unsaved(START + 120, 9).tolist() == []

    def test_rows_that_were_only_restored_are_not_due(self) -> None:
        model = UsageModel()
        model.restore(saved(lived(), START + 9 * DAY))
        assert model.select_unsaved(math.inf, 9).tolist() == []

    def test_a_batch_of_what_is_known_makes_nothing_due(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod("web-1")], START)
        samples = batch(("web-1", "app", START, 0.1, 1e8))
        model.ingest(samples, START)
        model.mark_saved(row(model), START)
        second = model.ingest(samples, START + 60)
        assert (second.accepted, second.dropped) == (0, {"RepeatedSample": 1})
        assert model.select_unsaved(START + 60, 9).tolist() == []


def test_a_history_that_cannot_be_read_changes_nothing_and_stops_no_other() -> None:
    good = saved(lived(), START + 9 * DAY)
    bad = msgspec.structs.replace(good, key=RowKey("shop", "bad", "app"), history="?")
    model = UsageModel()
    refused = model.restore_all([bad, good])
    assert [key.vpa for key in refused] == ["bad"]
    assert model.view().keys == [RowKey("shop", "web", "app")]
    with pytest.raises(InvalidCheckpoint, match=r"status\.history"):
        model.restore(bad)


def test_a_vpa_that_another_process_served_is_restored_from_its_checkpoints() -> None:
    model = lived()
    (own,) = model.save_rows(model.view().rows, START)
    model.reset_vpa("shop", "web")
    assert model.view().count.tolist() == [0]
    other = msgspec.structs.replace(own, count=own.count + 100)
    model.restore(other)
    assert model.view().count.tolist() == [own.count + 100]


def test_a_workload_without_pods_keeps_its_history_and_a_removed_container_does_not() -> None:
    later = START + 20 * DAY
    idle = lived()
    idle.track_pods("shop", [], START + 4 * DAY)
    for now in (later, later + 700, later + 1400):
        idle.collect_garbage({WEB}, now)
    assert idle.view().count.tolist()[0] > 0
    renamed = lived()
    renamed.track_pods("shop", [pod("web-3", containers=["other"])], START + 4 * DAY)
    for now in (later, later + 700, later + 1400):
        renamed.collect_garbage({WEB}, now)
    assert [key.container for key in renamed.view().keys] == ["other"]
