"""Pods are replaced; history stays, and tables do not grow."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.builders.usage_samples import batch, kill, memory_weights, pod, row
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel, UsageModelSizes
from trellis.core.usage.settings import Tuning, UsageSettings

START = 1_700_000_000.0
DAY = 86_400.0
WEB = ("shop", "web")


def counts(model: UsageModel) -> dict[str, int]:
    view = model.view()
    return {f"{key.vpa}/{key.container}": int(count) for key, count in zip(view.keys, view.count, strict=True)}


def test_history_survives_when_all_pods_are_replaced_at_once() -> None:
    model = UsageModel()
    for generation in range(5):
        now = START + 60 * generation
        names = [f"web-{generation}-{n}" for n in range(1000)]
        model.track_pods("shop", [pod(name) for name in names], now)
        model.ingest(batch(*((name, "app", now, 0.1, 1e8) for name in names)), now)
        model.collect_garbage([WEB], now)
    assert counts(model) == {"web/app": 5000}


def test_a_target_that_is_missing_for_a_moment_loses_nothing_and_doubles_nothing() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.ingest(batch(("web-1", "app", START, 0.1, 1e8)), START)
    before = memory_weights(model)
    model.track_pods("shop", [], START + 60)
    model.collect_garbage([WEB], START + 60)
    model.track_pods("shop", [pod("web-1")], START + 120)
    model.ingest(batch(("web-1", "app", START + 120, 0.1, 1e8)), START + 120)
    assert counts(model) == {"web/app": 2}
    assert memory_weights(model) == before


def test_a_selector_that_matches_nothing_for_a_week_loses_nothing() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.ingest(batch(("web-1", "app", START, 0.1, 1e8)), START)
    for hour in range(7 * 24):
        model.track_pods("shop", [], START + 3600 * hour)
        assert model.collect_garbage([WEB], START + 3600 * hour) == []
    assert counts(model) == {"web/app": 1}


def test_another_pod_of_the_same_name_is_another_pod() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("db-0", uid="first")], START)
    model.ingest(batch(("db-0", "app", START, 0.1, 1e8)), START)
    model.track_pods("shop", [pod("db-0", uid="second")], START + 60)
    result = model.ingest(batch(("db-0", "app", START + 30, 0.1, 2e8)), START + 60)
    assert result.accepted == 1
    assert len(memory_weights(model)) == 2  # each has a peak in its window
    assert model.sizes().slots == 2


def test_samples_of_untracked_pods_are_counted_and_not_stored() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.track_pods("shop", [pod("web-2")], START + 1)
    result = model.ingest(
        batch(
            ("web-1", "app", START, 0.1, 1e8),
            ("web-2", "other", START, 0.1, 1e8),
            ("nobody", "app", START, 0.1, 1e8),
            ("web-2", "app", START, 0.1, 1e8),
        ),
        START,
    )
    assert (result.accepted, result.dropped) == (1, {"UnknownContainer": 3})
    assert counts(model) == {"web/app": 1}


def test_a_pod_whose_governor_changes_feeds_the_other_row_from_then_on() -> None:
    model = UsageModel()
    for minute, vpa in enumerate(["old", "new", "old", "old"]):
        now = START + 60 * minute
        model.track_pods("shop", [pod("web-1", vpa)], now)
        model.ingest(batch(("web-1", "app", now, 0.1, 1e8 * (minute + 1))), now)
    assert counts(model) == {"old/app": 3, "new/app": 1}
    assert len(memory_weights(model, vpa="old")) == 1
    assert len(memory_weights(model, vpa="new")) == 1
    model.collect_garbage([("shop", "old"), ("shop", "new")], now + 601)
    assert model.sizes().slots == 1


def test_changed_readiness_and_requests_need_no_new_slots() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1", memory=1e9)], START)
    model.track_pods("shop", [pod("web-1", memory=4e9, ready=False)], START + 1)
    assert model.sizes().slots == 1
    assert model.record_ooms([kill("web-1", START + 1)], START + 1).memory.tolist() == [4.8e9]


def test_a_pod_named_twice_is_followed_once() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1", uid="a"), pod("web-1", uid="b")], START)
    assert model.sizes().slots == 1


def test_a_pod_without_containers_is_harmless() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1", containers=())], START)
    model.track_pods("shop", [], START + 1)
    model.collect_garbage([WEB], START + 2)
    assert model.sizes().names == 0


def test_a_namespace_that_is_empty_is_forgotten() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    assert model.namespaces == ["shop"]
    model.track_pods("shop", [], START + 1)
    assert model.namespaces == []


def test_nothing_grows_while_pods_are_replaced_a_thousand_times() -> None:
    model = UsageModel()
    rng = np.random.default_rng(1)
    generations = [0] * 40
    observed: list[UsageModelSizes] = []
    for number in range(1000):
        now = START + 60 * number
        for which in rng.integers(0, 40, 2).tolist():
            generations[which] += 1
        names = [f"web-{which}-{generation}" for which, generation in enumerate(generations)]
        model.track_pods("shop", [pod(name, f"vpa-{n % 8}") for n, name in enumerate(names)], now)
        model.ingest(batch(*((name, "app", now, 0.1, 1e8) for name in names)), now)
        model.record_ooms([kill(names[0], now, 1e9), kill("gone", now)], now)
        model.collect_garbage([("shop", f"vpa-{n}") for n in range(8)], now)
        observed.append(model.sizes())
    after_start = observed[50:]
    assert {size.bytes for size in after_start} == {after_start[0].bytes}
    assert {size.rows for size in after_start} == {8}
    assert max(size.slots for size in after_start) <= 40 + 2 * 11
    assert max(size.names for size in after_start) <= max(size.names for size in observed[:100]) + 2


def test_rows_of_a_deleted_vpa_stay_for_ten_minutes() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1"), pod("api-1", "api")], START)
    model.ingest(batch(("web-1", "app", START, 0.1, 1e8), ("api-1", "app", START, 0.1, 1e8)), START)
    model.tune(*WEB, "app", Tuning())
    model.track_pods("shop", [pod("api-1", "api")], START)
    api = [("shop", "api")]
    assert model.collect_garbage(api, START) == []
    assert model.collect_garbage(api, START + 599) == []
    assert model.collect_garbage(api, START + 600) == [RowKey("shop", "web", "app")]
    assert counts(model) == {"api/app": 1}
    assert model.sizes().vpas == 1


def test_a_vpa_that_is_replaced_within_ten_minutes_keeps_its_rows() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.ingest(batch(("web-1", "app", START, 0.1, 1e8)), START)
    model.track_pods("shop", [], START)
    model.collect_garbage([], START)
    model.collect_garbage([WEB], START + 500)
    assert model.collect_garbage([], START + 700) == []
    assert counts(model) == {"web/app": 1}


def test_rows_of_tracked_pods_are_never_removed() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.ingest(batch(("web-1", "app", START, 0.1, 1e8)), START)
    assert model.collect_garbage([], START) == []
    assert model.collect_garbage([], START + 30 * DAY) == []
    assert model.ingest(batch(("web-1", "app", START + 30 * DAY, 0.1, 1e8)), START + 30 * DAY).accepted == 1


def test_a_reused_row_is_empty() -> None:
    model = UsageModel()
    model.keep_totals([WEB, ("shop", "new")])
    model.keep_history([WEB, ("shop", "new")])
    model.track_pods("shop", [pod("web-1")], START)
    model.ingest(batch(("web-1", "app", START, 5.0, 1e10)), START)
    old = row(model)
    model.track_pods("shop", [], START)
    for now in (START, START + 600):
        model.collect_garbage([], now)
    model.track_pods("shop", [pod("new-1", "new")], START + 700)
    view = model.view()
    assert view.keys == [RowKey("shop", "new", "app")]
    assert view.rows.tolist() == old.tolist()
    assert view.count.tolist() == [0]
    assert view.cpu.is_empty(view.rows).all()
    assert view.memory.is_empty(view.rows).all()
    assert view.cpu_total.is_empty(view.total_rows).all()
    assert view.memory_total.is_empty(view.total_rows).all()
    assert math.isnan(view.first[0])
    assert np.isnan(view.history.read_summaries(view.history_rows, START + 7200)).all()


def test_the_row_of_a_removed_container_is_removed_when_its_samples_are_too_old() -> None:
    model = UsageModel(UsageSettings(memory_window=3600.0, memory_windows=2))
    model.track_pods("shop", [pod("web-1", containers=("app", "old"))], START)
    model.ingest(batch(("web-1", "app", START, 0.1, 1e8), ("web-1", "old", START, 0.1, 1e8)), START)
    model.track_pods("shop", [pod("web-2")], START + 60)
    for minute in range(2, 119, 5):
        assert model.collect_garbage([WEB], START + 60 * minute) == []
    assert model.collect_garbage([WEB], START + 7200) == [RowKey("shop", "web", "old")]


def test_rows_that_were_never_fed_are_forgotten_after_ten_minutes() -> None:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    model.track_pods("shop", [], START + 60)
    assert model.collect_garbage([WEB], START + 660) == []
    assert model.collect_garbage([WEB], START + 1260) == [RowKey("shop", "web", "app")]


class TestCurrent:
    """Which rows belong into a recommendation."""

    def current(self, model: UsageModel) -> dict[str, bool]:
        view = model.view()
        return {key.container: bool(now) for key, now in zip(view.keys, view.current, strict=True)}

    def test_containers_of_followed_pods_do_even_before_their_first_sample(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod("web-1")], START)
        assert self.current(model) == {"app": True}

    def test_a_container_that_no_pod_has_any_more_does_not(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod("web-1", containers=("app", "renamed"))], START)
        model.ingest(batch(("web-1", "app", START, 0.1, 1e8), ("web-1", "renamed", START, 0.1, 1e8)), START)
        model.track_pods("shop", [pod("web-2")], START + 60)
        assert self.current(model) == {"app": True, "renamed": False}

    def test_between_two_runs_the_containers_of_the_last_run_do(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod("job-1", containers=("old",))], START)
        model.ingest(batch(("job-1", "old", START, 0.1, 1e8)), START)
        later = START + 3 * DAY
        model.track_pods("shop", [pod("job-2", containers=("app", "helper"))], later)
        model.ingest(batch(("job-2", "app", later, 0.1, 1e8), ("job-2", "helper", later, 0.1, 1e8)), later)
        model.track_pods("shop", [], later + 60)
        assert self.current(model) == {"old": False, "app": True, "helper": True}

    def test_a_row_without_pods_and_samples_does_not(self) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod("web-1")], START)
        model.track_pods("shop", [], START)
        assert self.current(model) == {"app": False}

    @pytest.mark.parametrize("vpas", [0, 3])
    def test_the_rows_of_a_vpa_have_one_number(self, vpas: int) -> None:
        model = UsageModel()
        model.track_pods("shop", [pod(f"p-{n}", f"vpa-{n}", ("a", "b")) for n in range(vpas)], START)
        view = model.view()
        by_vpa = {(key.vpa, int(number)) for key, number in zip(view.keys, view.vpas, strict=True)}
        assert len(by_vpa) == len(set(view.vpas.tolist())) == vpas
