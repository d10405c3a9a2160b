"""The recommender of each VerticalPodAutoscaler; no other changes it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds.vpas import NAMESPACE, Stub, World
from trellis.api.kinds.vpa import RecommenderSelector
from trellis.api.resolve import selects_recommender

GOOD = (500.0, 1000.0, 2000.0)


def entries(*names: str) -> list[RecommenderSelector]:
    return [RecommenderSelector(name) for name in names]


@pytest.mark.req("CR-06")
def test_each_name_of_a_list_is_selected() -> None:
    assert [name for name in ("a", "b", "c", "default") if selects_recommender(entries("a", "b"), name)] == ["a", "b"]


@pytest.mark.req("CR-09", "CR-10")
@pytest.mark.parametrize(
    ("recommenders", "served_by"),
    [
        (None, ["default"]),
        ([], ["default"]),
        ([{"name": "default"}], ["default"]),
        ([{"name": "weekly"}], ["weekly"]),
        ([{"name": "Weekly"}], []),
    ],
)
def test_a_process_serves_the_vpas_that_name_its_recommenders(recommenders: Any, served_by: list[str]) -> None:
    for name in ("default", "weekly"):
        shop = World(Stub(name, GOOD))
        shop.apply(recommenders=recommenders)
        shop.run_pods()
        shop.run()
        assert ("status" in shop.stored["web"]) == (name in served_by)


@pytest.mark.req("CR-18", "CR-29")
def test_no_recommender_replaces_another_and_estimates_are_not_merged() -> None:
    low, high = Stub("default", GOOD), Stub("high", (5000.0, 9000.0, 9500.0))
    shop = World(low, high)
    shop.apply("web", recommenders=[{"name": "high"}])
    shop.apply("plain")
    for name in ("web", "plain"):
        shop.run_pods(name)
    shop.run()
    assert (shop.target("web")["cpu"], shop.target("plain")["cpu"]) == ("9", "1")
    assert (low.estimated_rows, high.estimated_rows) == (1, 1)
    high.error = ValueError("no")
    low.cpu = (50.0, 100.0, 200.0)
    shop.run()
    assert (shop.target("web")["cpu"], shop.target("plain")["cpu"]) == ("9", "100m")


@pytest.mark.req("CR-29")
def test_a_stub_is_all_that_a_second_recommender_takes() -> None:
    stub = Stub("mine", GOOD)
    shop = World(stub)
    shop.apply(recommenders=[{"name": "mine"}])
    shop.run_pods()
    shop.run()
    assert shop.target() == {"cpu": "1", "memory": "1953125Ki"}


@pytest.mark.req("CR-19")
def test_a_label_selects_nothing() -> None:
    shop = World(Stub("weekly", GOOD))
    shop.apply()
    shop.stored["web"]["metadata"]["labels"] = {"recommender": "weekly"}
    shop.store("web", shop.stored["web"])
    shop.run_pods()
    assert shop.run() == []
    assert len(shop.vpa_store) == 0


def test_a_vpa_that_moves_to_another_recommender_keeps_its_status() -> None:
    shop = World(Stub("default", GOOD))
    shop.apply()
    shop.run_pods()
    shop.run()
    shop.apply(recommenders=[{"name": "weekly"}])
    before = copy.deepcopy(shop.stored)
    stub = shop.recommenders["default"]
    assert isinstance(stub, Stub)
    stub.cpu = (1.0, 2.0, 3.0)
    assert shop.run() == []
    assert shop.stored == before
    shop.apply()
    shop.run()
    assert shop.target()["cpu"] == "2m"


def test_a_vpa_of_an_unserved_recommender_is_not_written() -> None:
    shop = World(Stub("default", GOOD), Stub("weekly", GOOD))
    shop.apply(recommenders=[{"name": "weekly"}])
    shop.run_pods()
    shop.run()
    del shop.recommenders["weekly"]
    before = copy.deepcopy(shop.stored)
    shop.set_state(problem="gone")
    assert shop.run() == []
    assert shop.stored == before
    assert shop.decide().vpas == 0


names = st.sampled_from(["default", "weekly", "Weekly", "spark"])


@pytest.mark.req("CR-11")
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.one_of(st.none(), names), min_size=1, max_size=5),
    st.lists(st.sets(names, min_size=1), min_size=1, max_size=3),
)
def test_each_vpa_is_served_by_at_most_one_recommender(wanted: list[str | None], processes: list[set[str]]) -> None:
    """Processes with disjoint sets of names, as leases see to it: whatever they are, nobody is written about twice."""
    taken: set[str] = set()
    writers: dict[str, list[str]] = {}
    for served in processes:
        own, taken = served - taken, taken | served
        shop = World(*(Stub(name, (1.0, float(1000 * at), 1e6)) for at, name in enumerate(sorted(own), start=1)))
        shop.recommenders = {name: shop.recommenders[name] for name in sorted(own)}
        for number, name in enumerate(wanted):
            shop.apply(f"vpa-{number}", recommenders=None if name is None else [{"name": name}])
            shop.run_pods(f"vpa-{number}")
        for write in shop.run():
            at = sorted(own).index(wanted[int(write.name[4:])] or "default") + 1
            assert shop.target(write.name)["cpu"] == str(at)
            writers.setdefault(write.name, []).append(NAMESPACE)
    assert all(len(writer) == 1 for writer in writers.values())
    expected = {f"vpa-{at}" for at, name in enumerate(wanted) if (name or "default") in taken}
    assert writers.keys() == expected
