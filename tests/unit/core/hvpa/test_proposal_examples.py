"""Every worked number of the proposal, as a plan."""

from __future__ import annotations

from fractions import Fraction

import pytest

from support.builders.manifests import ONLY_HORIZONTAL, STORY_1, STORY_2, bucket
from support.worlds.hvpas import GIGA, amounts, decided, meaning, shape, view
from trellis.core.hvpa import ContainerView, HpaView, HvpaPlan, HvpaView
from trellis.core.hvpa.next_step import split_amount
from trellis.core.hvpa.plan import LIMITED
from trellis.core.recommend.amounts import ResourceAmounts

FIRST = bucket((2, 5), ("3", "6"), ("2.5G", "7G"))
BASE_USAGE = bucket((1, 8), (0, 1), (0, "13.6G"))
CPU_ALONE = frozenset({"cpu"})


def by_total(
    total: ResourceAmounts, *buckets: object, replicas: int = 1, target: ResourceAmounts | None = None, **spec: object
) -> HvpaPlan:
    """The plan for a total, with no window to wait for."""
    means = meaning(*buckets, **{"scaleDown": {"stabilizationWindow": "0s"}, **spec})
    return decided(view(replicas, dict.fromkeys(total, 1), target or dict.fromkeys(total, 0), total, meaning=means))


def cores(total: str, *buckets: object) -> tuple[int, int | None]:
    """Count and millicores."""
    return shape(by_total(amounts(cpu=total), *buckets))[:2]


def with_replicas(spec_replicas: int, target: ResourceAmounts, total: ResourceAmounts) -> HvpaView:
    """Two replicas of 6 cores, of which an HPA has just wished so many."""
    hpa = HpaView(Fraction(2), CPU_ALONE)
    begun = decided(view(2, amounts(cpu="6"), spec_replicas=2, hpa=hpa)).memory
    return view(2, amounts(cpu="6"), target, total, spec_replicas=spec_replicas, hpa=hpa, memory=begun)


@pytest.mark.req("HV-01", "HV-02", "HV-31")
def test_a_vpa_alone_changes_the_count() -> None:
    made = decided(view(2, amounts(cpu="6"), amounts(cpu="12"), amounts(cpu="24")))
    assert shape(made) == (3, 8000, None)
    assert made.hpa == {}


@pytest.mark.req("HV-03", "HV-04", "HV-05")
def test_twelve_cores_in_the_first_bucket_are_three_times_four() -> None:
    assert cores("12", FIRST) == (3, 4000)
    assert by_total(amounts(memory="18G"), FIRST).shape.count == 4
    totals = ("7.5", "7501m", "13.5", "13501m", "21", "21001m", "30")
    assert [cores(total, FIRST)[0] for total in totals] == [2, 3, 3, 4, 4, 5, 5]


@pytest.mark.req("HV-06", "HV-13")
def test_story_1_with_both_sources_meaning_24_cores() -> None:
    made = decided(with_replicas(4, amounts(cpu="12"), amounts(cpu="24")))
    assert made.hpa == made.vpa == amounts(cpu="24")
    assert shape(made) == (3, 8000, None)


@pytest.mark.req("HV-22")
def test_the_higher_of_both_totals_sets_the_count_and_the_count_the_size() -> None:
    made = decided(with_replicas(4, amounts(cpu="8"), amounts(cpu="16")))
    assert made.vpa == amounts(cpu="16")
    assert shape(made) == (3, 8000, None)


@pytest.mark.req("HV-09", "HV-10", "HV-14")
def test_an_edge_belongs_to_the_lower_count() -> None:
    edges = (3, 12, 27, 48, 75, 108, 147, 192)
    assert [cores(str(edge))[0] for edge in edges] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [cores(f"{edge}001m")[0] for edge in edges] == [2, 3, 4, 5, 6, 7, 8, 8]


@pytest.mark.req("HV-11", "HV-12")
def test_memory_edges_of_story_1_follow_its_bounds() -> None:
    edges = [3_562_500_000, 13_250_000_000, 29_062_500_000, 51 * GIGA]
    assert [by_total({"memory": edge}).shape.count for edge in edges] == [1, 2, 3, 4]
    assert [by_total({"memory": edge + 1}).shape.count for edge in edges] == [2, 3, 4, 5]


@pytest.mark.req("HV-15")
def test_a_share_is_at_most_its_counts_maximum_rounded_up() -> None:
    assert cores("4285m", *STORY_2) == (2, 2143)
    assert cores("4286m", *STORY_2)[0] == 3


@pytest.mark.req("HV-17")
def test_above_the_last_bucket_is_its_highest_count_at_its_maximum() -> None:
    made = by_total(amounts(cpu="200"))
    assert shape(made) == (8, 24_000, None)
    assert LIMITED in made.summary.notes
    assert LIMITED not in by_total(amounts(cpu="192")).summary.notes


@pytest.mark.req("HV-18")
def test_story_2_has_one_replica_up_to_its_first_edge() -> None:
    for cpu, memory in (("1m", "1"), ("500m", "2G"), ("1", "2G")):
        made = by_total(amounts(cpu, memory), *STORY_2)
        assert shape(made) == (1, *amounts(cpu, memory).values())


@pytest.mark.req("HV-19", "HV-20")
def test_story_2_grows_in_count_and_size_up_to_its_end() -> None:
    edges = (4285, 9857, 17_714, 27_857, 40_285, 55_000, 72_000)
    assert [by_total({"cpu": edge}, *STORY_2).shape.count for edge in edges] == [2, 3, 4, 5, 6, 7, 8]
    assert [by_total({"cpu": edge + 1}, *STORY_2).shape.count for edge in edges] == [3, 4, 5, 6, 7, 8, 8]
    assert shape(by_total(amounts("72", "160G"), *STORY_2)) == (8, 9000, 20 * GIGA)


@pytest.mark.req("HV-21")
def test_a_gap_belongs_to_the_later_bucket() -> None:
    made = by_total(amounts("1", "2.1G"), *STORY_2, target=amounts("1", "2.1G"))
    assert shape(made) == (2, 1000, 2_100_000_000)


@pytest.mark.req("HV-23")
def test_the_resource_that_asks_for_more_replicas_wins() -> None:
    made = by_total(amounts("24", "40G"), replicaSize={"memory": "Share"})
    assert shape(made) == (4, 6000, 10 * GIGA)


@pytest.mark.req("HV-24", "HV-25")
def test_several_containers_share_in_proportion_and_those_off_do_not_count() -> None:
    size = {"cpu": 2000}
    containers = (
        ContainerView("app", True, {"cpu": 2000}, {"cpu": 16_000}, size, size, size),
        ContainerView("log", True, {"cpu": 1000}, {"cpu": 8000}, size, size, size),
        ContainerView("mesh", False, {"cpu": 9000}, {"cpu": 90_000}, size, size, size),
    )
    made = decided(view(4, {}, meaning=meaning(scaleDown={"overlapPercent": 20}), containers=containers))
    assert made.totals == {"cpu": 24_000}
    assert shape(made) == (4, 6000, None), "24 cores are within the overlap of what three replicas hold"
    assert made.containers == {"app": {"cpu": 4000}, "log": {"cpu": 2000}}


@pytest.mark.req("HV-25")
def test_left_over_units_go_to_the_largest_remainders() -> None:
    assert split_amount(100, [1, 1, 1]) == [34, 33, 33]
    assert split_amount(6000, [2000, 1000]) == [4000, 2000]
    assert split_amount(10, [1, 2, 4]) == [1, 3, 6]
    assert split_amount(7, [0, 0]) == [4, 3]


@pytest.mark.req("HV-26", "HV-27")
def test_a_bucket_of_one_size_scales_only_horizontally() -> None:
    assert [cores(total, *ONLY_HORIZONTAL) for total in ("25", "32", "33", "40", "48")] == [
        (4, 8000), (4, 8000), (5, 8000), (5, 8000), (6, 8000),
    ]  # fmt: skip
    assert [cores(total, *ONLY_HORIZONTAL)[0] for total in ("2666m", "2667m", "10666m", "10667m", "24")] == [
        1, 2, 2, 3, 3,
    ]  # fmt: skip
    assert shape(by_total(amounts("33", "1G"), *ONLY_HORIZONTAL)) == (5, 8000, 20 * GIGA)


@pytest.mark.req("HV-28", "HV-29")
def test_base_usage_keeps_replicas_at_the_recommendation_for_memory() -> None:
    observed = view(2, amounts(memory="5G"), amounts(memory="6G"), amounts(memory="12G"), meaning=meaning(BASE_USAGE))
    assert shape(decided(observed)) == (3, None, 6 * GIGA)


@pytest.mark.req("HV-29")
def test_replica_size_changes_either_resource() -> None:
    turned = {"cpu": "AtLeastRecommended", "memory": "Share"}
    target = amounts("12", "12G")
    assert shape(by_total(amounts("24", "24G"), target=target)) == (3, 8000, 12 * GIGA)
    assert shape(by_total(amounts("24", "24G"), target=target, replicaSize=turned)) == (3, 12_000, 8 * GIGA)


@pytest.mark.req("HV-16")
def test_what_is_recommended_is_bounded_by_the_bucket() -> None:
    made = by_total(amounts(memory="1G"), STORY_1, target=amounts(memory="40G"))
    assert shape(made) == (1, None, 25 * GIGA)
    assert shape(by_total(amounts(memory="1M"), STORY_1)) == (1, None, 500_000_000)


@pytest.mark.req("HV-44")
@pytest.mark.parametrize("percent", [0, 10, 100])
def test_the_count_is_kept_within_the_overlap(percent: int) -> None:
    policy = {"stabilizationWindow": "0s", "overlapPercent": 10, "minChangePercent": percent}
    means = meaning(scaleDown=policy)
    plan = decided(view(3, amounts(cpu="4"), {"cpu": 1}, amounts(cpu="10801m"), meaning=means))
    assert plan.shape.count == 3
    less = decided(view(3, amounts(cpu="4"), {"cpu": 1}, amounts(cpu="10800m"), meaning=means))
    assert shape(less) == (2, 5400, None)


def test_a_count_in_no_bucket_has_no_overlap() -> None:
    means = meaning(
        bucket((1, 2), (0, 2), (0, 2)), bucket((6, 8), (2, 2), (2, 2)), scaleDown={"stabilizationWindow": "0s"}
    )
    made = decided(view(4, amounts(cpu="2"), {"cpu": 1}, amounts(cpu="3999m"), meaning=means))
    assert made.shape.count == 2
    inside = decided(view(6, amounts(cpu="2"), {"cpu": 1}, amounts(cpu="3999m"), meaning=means))
    assert inside.shape.count == 6


def test_a_bucket_with_very_many_counts_is_no_trouble() -> None:
    assert cores("1000000", bucket((1, 2**31 - 1), (1, 1), (0, 0)))[0] == 1_000_000
