"""When a status is written: at once, later, or not at all."""

from __future__ import annotations

import pytest

from support.worlds.vpas import DAY, MINUTE, NAMESPACE, Stub, World
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.state.tables import VpaStatusWrite


def reasons(writes: list[VpaStatusWrite]) -> set[str]:
    return {str(reason) for write in writes for reason in write.reasons}


def published(cpu: tuple[float, ...] = (500.0, 1000.0, 2000.0), settings: PipelineSettings | None = None) -> World:
    """One VPA with a recommendation that was just published."""
    shop = World(Stub("default", cpu), settings=settings)
    shop.apply()
    shop.run_pods()
    shop.ingest_usage()
    shop.run()
    return shop


def run_with_estimates(shop: World, *cpu: float) -> list[VpaStatusWrite]:
    recommender = shop.recommenders["default"]
    assert isinstance(recommender, Stub)
    recommender.cpu = cpu
    return shop.run()


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ((500, 1050, 2000), set()),  # 5 % is not more than 5 %
        ((500, 1051, 2000), {"TargetMoved"}),
        ((500, 949, 2000), {"TargetMoved"}),
        ((474, 1000, 2000), {"BoundsMoved"}),  # away from the target
        ((500, 1000, 2101), {"BoundsMoved"}),
        ((526, 1000, 2000), set()),  # towards it
        ((500, 1000, 1899), set()),
        ((751, 1000, 2000), {"BoundsMoved"}),  # by more than a half
        ((500, 999, 999), {"BoundsMoved"}),
    ],
)
def test_a_value_is_written_once_it_moved_by_more_than_the_threshold(
    cpu: tuple[float, ...], expected: set[str]
) -> None:
    shop = published()
    assert reasons(run_with_estimates(shop, *cpu)) == expected


def test_a_published_value_has_full_precision() -> None:
    shop = published()
    run_with_estimates(shop, 501, 1003, 2007)
    assert shop.target()["cpu"] == "1"
    run_with_estimates(shop, 501, 1103, 2007)
    entry = shop.advice()["app"]
    assert [entry[field]["cpu"] for field in ("lowerBound", "target", "upperBound")] == ["501m", "1103m", "2007m"]


def test_small_steps_are_measured_from_the_published_value_and_add_up() -> None:
    shop = published()
    assert run_with_estimates(shop, 500, 1030, 2000) == []
    assert reasons(run_with_estimates(shop, 500, 1060, 2000)) == {"TargetMoved"}


def test_a_small_difference_is_written_when_the_status_is_old() -> None:
    shop = published()
    run_with_estimates(shop, 500, 1001, 2000)
    shop.now += 299
    assert shop.run() == []
    shop.now += 301
    assert reasons(shop.run()) == {"StatusRefreshed"}
    assert shop.target()["cpu"] == "1001m"


def test_an_old_status_without_differences_is_not_written() -> None:
    shop = published()
    shop.now += 10 * DAY
    assert shop.run() == []


def test_objects_created_together_reach_their_maximum_age_at_different_times() -> None:
    shop = World(Stub("default", (500, 1000, 2000)))
    for number in range(40):
        shop.apply(f"vpa-{number}")
        shop.run_pods(f"vpa-{number}")
    assert len(shop.run()) == 40
    recommender = shop.recommenders["default"]
    assert isinstance(recommender, Stub)
    recommender.cpu = (500, 1001, 2000)
    per_pass = []
    for _ in range(10):
        shop.now += MINUTE
        per_pass.append(len(shop.run()))
    assert per_pass[:4] == [0, 0, 0, 0]
    assert sum(per_pass) == 40
    assert max(per_pass) <= 20


def test_bounds_that_narrow_with_confidence_cause_few_writes() -> None:
    """Without care there would be one every minute: at first the upper bound falls by half with every sample."""
    shop = World(settings=PipelineSettings(max_age=10 * DAY))
    shop.apply()
    shop.run_pods()
    writes = 0
    for _ in range(100):
        shop.ingest_usage()
        writes += len(shop.run())
    assert writes <= 9
    assert shop.target()["cpu"] == "1168m"


def test_a_restart_writes_nothing_that_is_published_already() -> None:
    shop = published()
    shop.restart()
    assert shop.run() == []
    shop.now += 10 * DAY
    assert shop.run() == []


def test_after_a_restart_the_age_of_a_status_begins_anew() -> None:
    shop = published()
    shop.restart()
    assert run_with_estimates(shop, 500, 1001, 2000) == []
    shop.now += 600
    assert reasons(shop.run()) == {"StatusRefreshed"}


def test_an_edit_that_changes_no_number_is_observed() -> None:
    shop = published()
    shop.apply(updatePolicy={"updateMode": "Off"})
    assert reasons(shop.run()) == {"GenerationObserved"}
    assert shop.status()["observedGeneration"] == 2
    assert {condition["observedGeneration"] for condition in shop.status()["conditions"]} == {2}


def test_a_write_that_failed_is_made_again() -> None:
    shop = World(Stub("default", (500, 1000, 2000)))
    shop.apply()
    shop.run_pods()
    (first,) = shop.decide().writes
    (second,) = shop.decide().writes
    assert first.is_first
    assert second.is_first
    assert second.status == first.status


def test_only_the_vpa_that_changed_is_written() -> None:
    shop = published()
    shop.apply("other")
    shop.run_pods("other")
    shop.run()
    shop.set_state("web", rivals=("other",))
    (write,) = shop.run()
    assert (write.namespace, write.name) == (NAMESPACE, "web")
