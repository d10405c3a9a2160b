"""Totals for an Hvpa where another recommender serves its VPA."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.vpas import NAMESPACE, World
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.resolve import resolve_vpa
from trellis.core.recommend.publish.hvpa_totals import GovernedVpa, compute_totals, publishes_totals, read_targets
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.state.snapshot import RecommenderScope
from trellis.core.recording.recommender import VpasLine

KEY = (NAMESPACE, "web")


def vpa(*parts: dict[str, Any], **spec: Any) -> VerticalPodAutoscaler:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    status = {"recommendation": {"containerRecommendations": list(parts)}} if parts else {}
    document = {"metadata": {"name": "web"}, "spec": {"targetRef": target, **spec}, "status": status}
    return msgspec.convert(document, VerticalPodAutoscaler)


def part(name: str = "app", **fields: Any) -> dict[str, Any]:
    return {"containerName": name, **fields}


def lived(*containers: str) -> World:
    """Three pods whose containers use a core and a gibibyte each."""
    shop = World()
    shop.apply()
    shop.model.keep_totals([KEY])
    shop.run_pods("web", *containers, count=3)
    shop.ingest_usage(1.0, 2**30, minutes=30)
    return shop


SHOP = lived("app")
PAIR = lived("app", "log")


def totals(shop: World, result: VerticalPodAutoscaler, *, by_others: bool = True) -> list[float]:
    governed = {KEY: GovernedVpa(resolve_vpa(result), read_targets(result) if by_others else None)}
    cpu, memory = compute_totals(shop.model.view(), DefaultRecommender(), governed, shop.now)[KEY]
    return [float(cpu), float(memory)]


OURS = totals(SHOP, vpa(), by_others=False)


@pytest.mark.req("HV-06")
@given(cores=st.integers(1, 100), more=st.integers(2, 9))
def test_the_total_is_our_count_of_the_work_at_the_others_judgement_of_a_pod(cores: int, more: int) -> None:
    cpu, memory = totals(SHOP, vpa(part(target={"cpu": str(cores), "memory": "1Gi"})))
    assert cpu == pytest.approx(3 * cores * 1000, rel=0.06), "three pods of that size, but for the width of a bin"
    assert memory == pytest.approx(3 * 2**30, rel=0.06)
    moved, same = totals(SHOP, vpa(part(target={"cpu": str(cores * more), "memory": "1Gi"})))
    assert moved == pytest.approx(cpu * more, rel=0.001)
    assert same == memory


def test_our_own_total_is_not_scaled_where_our_own_target_is_the_vpas() -> None:
    assert OURS[0] == pytest.approx(3 * 1168, rel=0.06)


def test_bounds_of_a_policy_are_none_of_the_work() -> None:
    bounded = part(target={"cpu": "2", "memory": "1Gi"}, uncappedTarget={"cpu": "6", "memory": "1Gi"})
    assert totals(SHOP, vpa(bounded))[0] == pytest.approx(3 * 6000, rel=0.06)


def test_resources_and_containers_that_the_other_does_not_recommend_add_nothing() -> None:
    assert totals(SHOP, vpa(part(target={"memory": "1Gi"})))[0] == 0.0
    one = totals(PAIR, vpa(part(target={"cpu": "2", "memory": "1Gi"})))
    both = totals(PAIR, vpa(part(target={"cpu": "2"}), part("log", target={"cpu": "4"})))
    assert [one[0], both[0]] == pytest.approx([6000, 18_000], rel=0.06)
    off = {"containerPolicies": [{"containerName": "log", "mode": "Off"}]}
    left_out = vpa(part(target={"cpu": "2"}), part("log", target={"cpu": "4"}), resourcePolicy=off)
    assert totals(PAIR, left_out)[0] == one[0]


def test_totals_are_unknown_before_the_other_recommender_publishes_and_without_history() -> None:
    assert totals(SHOP, vpa()) == [0.0, 0.0]
    unknown = World()
    unknown.apply()
    unknown.model.keep_totals([KEY])
    unknown.run_pods("web", "app", count=3)
    assert totals(unknown, vpa(part(target={"cpu": "2", "memory": "1Gi"}))) == [0.0, 0.0]


def test_targets_are_millicores_and_bytes_and_totals_of_a_status_are_observed() -> None:
    result = read_targets(vpa(part(target={"cpu": "1500m"})))["app"]
    assert result[0] == 1500
    assert np.isnan(result[1])
    assert read_targets(None) == {}
    assert not publishes_totals(vpa(part(target={"cpu": "1"})))
    assert publishes_totals(vpa(part(target={"cpu": "1"}, totalTarget={"cpu": "3"})))


def test_one_process_publishes_totals_which_in_older_recordings_serves_default() -> None:
    assert RecommenderScope(frozenset({"default", "frugal"})).keeps_totals
    assert not RecommenderScope(frozenset({"frugal"})).keeps_totals
    assert RecommenderScope(frozenset({"frugal"}), totals=True).keeps_totals
    older = b'{"recommenders":["default"],"namespace":"","ignored":[],"is_new_scope":true,"can_boost":true}'
    assert msgspec.json.decode(older, type=VpasLine).scope == RecommenderScope(frozenset({"default"}))
