"""From usage to statuses: recommended, retained and explained amounts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.worlds.vpas import DAY, NAMESPACE, START, World
from trellis.api.resolve import NO_MODE, WRITTEN_MODES
from trellis.base.quantities import Quantity
from trellis.core.recommend.post_processing import RECOMMENDATION_KEPT
from trellis.core.recommend.recommendation_pass import CONTAINER_OFF, NOT_SERVED_HERE, RECOMMENDED
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.state.vpa_store import VpaStore

ONE_CORE = {"cpu": "1168m", "memory": "1238659775"}


def world(settings: PipelineSettings | None = None, **spec: Any) -> World:
    """One VPA with one pod that was sampled a few times."""
    made = World(settings=settings)
    made.apply(**spec)
    made.run_pods()
    made.ingest_usage(minutes=3)
    return made


def policy(**fields: Any) -> dict[str, Any]:
    return {"containerPolicies": [{"containerName": "app", **fields}]}


def test_usage_becomes_a_recommendation() -> None:
    shop = world()
    (write,) = shop.run()
    assert shop.target() == ONE_CORE
    entry = shop.advice()["app"]
    assert entry["uncappedTarget"] == ONE_CORE
    assert set(entry) == {"containerName", "target", "lowerBound", "upperBound", "uncappedTarget"}
    assert shop.status()["observedGeneration"] == 1
    assert (write.is_first, write.created) == (True, START - 100)


def test_a_pass_that_finds_nothing_new_writes_nothing() -> None:
    shop = world()
    assert len(shop.run()) == 1
    assert shop.run() == []


def test_containers_are_listed_by_name_and_share_the_minimum() -> None:
    shop = World()
    shop.apply(resourcePolicy={"containerPolicies": [{"containerName": "off", "mode": "Off"}]})
    shop.run_pods("web", "proxy", "app", "off")
    shop.ingest_usage(0.0, 0.0, minutes=2)
    shop.run()
    assert list(shop.advice()) == ["app", "proxy"]
    assert shop.target(container="app") == {"cpu": "12m", "memory": "125Mi"}


def test_a_container_without_samples_is_not_recommended_for() -> None:
    shop = World()
    shop.apply()
    shop.run_pods()
    shop.run()
    assert shop.status()["recommendation"] == {}
    provided = shop.conditions()["RecommendationProvided"]
    assert (provided["status"], provided["reason"]) == ("False", "NoSamples")


@pytest.mark.req("CR-22")
def test_without_policies_every_container_is_sized_without_bounds() -> None:
    shop = World()
    shop.apply()
    shop.run_pods("web", "app", "proxy")
    shop.ingest_usage(100.0, 1e12, minutes=2)
    shop.run()
    assert list(shop.advice()) == ["app", "proxy"]
    for container in shop.advice().values():
        assert int(container["target"]["cpu"].removesuffix("m")) >= 100_000
        assert Quantity.parse(container["target"]["memory"]).units >= 1e12
        assert container["target"] == container["uncappedTarget"]


@pytest.mark.req("AR-18")
def test_under_off_a_recommendation_is_published_whatever_changes_are_required() -> None:
    asked = [{"resources": ["cpu", "memory"], "changeRequirement": "TargetLowerThanRequests"}]
    shop, free = world(updatePolicy={"updateMode": "Off", "actuationRequirements": asked}), world()
    shop.run()
    free.run()
    assert shop.advice() == free.advice()
    assert shop.target()["cpu"]


def test_policies_bound_all_but_the_uncapped_target() -> None:
    shop = world(resourcePolicy=policy(minAllowed={"memory": "2G"}, maxAllowed={"cpu": "500m"}))
    shop.run()
    entry = shop.advice()["app"]
    assert entry["target"] == entry["lowerBound"] | {"cpu": "500m"} == {"cpu": "500m", "memory": "2G"}
    assert entry["upperBound"]["cpu"] == "500m"
    assert entry["uncappedTarget"] == ONE_CORE


def test_an_edited_policy_is_heeded_at_once() -> None:
    shop = world()
    shop.run()
    shop.apply(resourcePolicy=policy(maxAllowed={"cpu": "500m"}))
    (write,) = shop.run()
    assert shop.target()["cpu"] == "500m"
    assert {str(reason) for reason in write.reasons} >= {"GenerationObserved", "TargetMoved"}
    shop.apply()
    shop.run()
    assert shop.target() == ONE_CORE


def test_the_cluster_maximum_bounds_resources_without_a_policy_maximum() -> None:
    shop = world(PipelineSettings(max_allowed_cpu=700.0, max_allowed_memory=1e9))
    shop.run()
    assert shop.target() == {"cpu": "700m", "memory": "1000000000"}


def test_resources_that_are_not_controlled_are_omitted() -> None:
    shop = world(resourcePolicy=policy(controlledResources=["memory"]))
    shop.run()
    entry = shop.advice()["app"]
    assert all(set(entry[field]) == {"memory"} for field in entry if field != "containerName")


def test_a_container_that_is_switched_off_leaves_the_recommendation() -> None:
    shop = world()
    shop.run()
    shop.apply(resourcePolicy=policy(mode="Off"))
    result = shop.decide()
    (explained,) = result.explain_vpa(NAMESPACE, "web")
    assert explained.reason is CONTAINER_OFF
    shop.run()
    assert shop.status()["recommendation"] == {}
    assert "RecommendationProvided" not in shop.true_conditions()


def test_rounding_comes_before_policies() -> None:
    settings = PipelineSettings(round_cpu_millicores=100, round_memory_bytes=2**20, max_allowed_cpu=1150.0)
    shop = world(settings)
    shop.run()
    assert shop.target() == {"cpu": "1150m", "memory": "1182Mi"}
    assert shop.advice()["app"]["uncappedTarget"]["cpu"] == "1200m"


def test_memory_can_be_humanised() -> None:
    shop = world(PipelineSettings(humanize_memory=True))
    shop.run()
    assert shop.target()["memory"] == "1234803097600m"  # 1.15Gi
    assert shop.run() == []
    shop.restart()
    assert shop.run() == []


INTEGER = {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}


@pytest.mark.parametrize(("setting", "expected"), [(True, "2"), (False, "1168m")])
def test_cpu_is_rounded_to_whole_cores_where_annotation_and_setting_ask_for_it(setting: bool, expected: str) -> None:
    shop = world(PipelineSettings(integer_cpu=setting), annotations=INTEGER)
    shop.run()
    entry = shop.advice()["app"]
    assert entry["target"]["cpu"] == entry["uncappedTarget"]["cpu"] == expected


def test_a_changed_annotation_is_applied_without_a_new_generation() -> None:
    shop = world(PipelineSettings(integer_cpu=True))
    shop.run()
    shop.apply(annotations=INTEGER)
    shop.run()
    assert shop.target()["cpu"] == "2"
    assert shop.status()["observedGeneration"] == 1


# Totals


def test_totals_are_computed_for_all_and_published_where_an_hvpa_reads_them() -> None:
    shop = World()
    shop.apply()
    shop.model.keep_totals([(NAMESPACE, "web")])
    shop.run_pods("web", "app", count=3)
    shop.ingest_usage(1.0, 2**30, minutes=2)
    result = shop.decide()
    assert result.totals()[0, 0] == pytest.approx(3 * 1168, rel=0.06)
    shop.run()
    assert "totalTarget" not in shop.advice()["app"]
    shop.set_state(publishes_totals=True)
    shop.run()
    total = shop.advice()["app"]["totalTarget"]
    assert int(total["cpu"].removesuffix("m")) == pytest.approx(3 * 1168, rel=0.06)
    assert set(total) == {"cpu", "memory"}
    shop.restart()
    assert shop.run() == []


# What stays


def test_a_missing_target_keeps_the_recommendation_and_sets_a_condition() -> None:
    shop = world()
    shop.run()
    shop.pods = {}
    shop.model.track_pods(NAMESPACE, [], shop.now)
    shop.set_state(pods=0, problem="Cannot read targetRef. Reason: Deployment shop/web does not exist")
    shop.run()
    assert shop.target() == ONE_CORE
    assert shop.true_conditions() == {"RecommendationProvided", "NoPodsMatched", "ConfigUnsupported", "LowConfidence"}
    condition = shop.conditions()["ConfigUnsupported"]
    assert condition["message"] == "Cannot read targetRef. Reason: Deployment shop/web does not exist"
    assert condition["reason"] == "TargetUnusable"
    shop.run_pods()
    shop.set_state(problem="")
    shop.run()
    assert shop.true_conditions() == {"RecommendationProvided", "LowConfidence"}


def test_without_history_a_missing_target_keeps_the_stored_recommendation() -> None:
    shop = world()
    shop.run()
    shop.set_state(pods=0, problem="gone")
    shop.model = World().model
    shop.restart()
    shop.run()
    assert shop.target() == ONE_CORE


def test_lost_history_does_not_take_a_recommendation_back() -> None:
    shop = world()
    shop.run()
    before = shop.advice()
    shop.model = World().model
    shop.restart()
    shop.run_pods()
    (explained,) = shop.decide().explain_vpa(NAMESPACE, "web")
    assert explained.reason is RECOMMENDATION_KEPT
    shop.run()
    assert shop.advice() == before
    shop.ingest_usage(4.0, 2**30)
    shop.run()
    assert shop.target()["cpu"] == "4742m"


def test_a_retained_recommendation_is_capped_by_an_edited_policy() -> None:
    shop = world()
    shop.run()
    shop.model = World().model
    shop.restart()
    shop.run_pods()
    shop.apply(resourcePolicy=policy(maxAllowed={"cpu": "300m"}, controlledResources=["cpu"]))
    shop.run()
    assert shop.target() == {"cpu": "300m"}


def test_a_container_that_no_pod_has_leaves_the_recommendation() -> None:
    shop = World()
    shop.apply()
    shop.run_pods("web", "app", "old")
    shop.ingest_usage(minutes=2)
    shop.run()
    assert list(shop.advice()) == ["app", "old"]
    shop.run_pods("web", "app")
    shop.ingest_usage()
    (write,) = shop.run()
    assert list(shop.advice()) == ["app"]
    assert "RecommendedValuesChanged" in {str(reason) for reason in write.reasons}


def test_no_pods_and_no_history_leaves_nothing_to_recommend() -> None:
    shop = World()
    shop.apply()
    shop.run()
    assert shop.status()["recommendation"] == {}
    assert shop.true_conditions() == {"NoPodsMatched"}
    provided = shop.conditions()["RecommendationProvided"]
    assert (provided["reason"], provided["message"]) == ("NoPodsMatched", "No pods match this VPA object")


def test_before_the_state_of_the_target_is_known_no_status_is_written() -> None:
    shop = World()
    shop.apply()
    shop.vpa_store = VpaStore()
    shop.put("web")
    assert shop.run() == []
    assert shop.decide().counts == {}


# Objects that come and go


def test_an_object_that_was_deleted_and_made_again_starts_anew() -> None:
    shop = world()
    shop.run()
    document = shop.stored["web"]
    document["metadata"] |= {"uid": "another", "generation": 1}
    document.pop("status")
    shop.store("web", document)
    shop.vpa_store.set_state(NAMESPACE, "web", shop.states["web"])
    (write,) = shop.run()
    assert (write.uid, write.is_first) == ("another", True)


def test_a_write_for_a_deleted_object_is_ignored() -> None:
    shop = world()
    (write,) = shop.decide().writes
    shop.vpa_store.drop(NAMESPACE, "web")
    shop.vpa_store.drop(NAMESPACE, "web")
    shop.vpa_store.record_write(write, "7", shop.now)
    shop.vpa_store.set_state(NAMESPACE, "web", shop.states["web"])
    assert len(shop.vpa_store) == 0
    result = shop.decide()
    assert result.writes == []
    (explained,) = result.explain_all()
    assert explained.reason is NOT_SERVED_HERE


def test_numbers_are_reused_and_tables_do_not_grow() -> None:
    shop = World()
    for turn in range(5):
        name = f"vpa-{turn}"
        shop.apply(name)
        shop.run_pods(name, f"c{turn}")
        shop.ingest_usage(vpa=name, minutes=2)
        shop.run()
        shop.run_pods(name, f"renamed{turn}")
        shop.ingest_usage(vpa=name)
        shop.run()
        shop.vpa_store.drop(NAMESPACE, name)
        del shop.stored[name]
        shop.run_pods(name, count=0)
        shop.model.collect_garbage([], shop.now + 20 * DAY)
        shop.model.collect_garbage([], shop.now + 40 * DAY)
        assert shop.run() == []
    assert shop.vpa_store.vpas.numbers_end == 1
    assert shop.vpa_store.containers.size == 0
    assert shop.vpa_store.containers.numbers_end <= 3


def test_a_cleared_status_is_written_again() -> None:
    shop = world()
    shop.run()
    shop.stored["web"].pop("status")
    shop.store("web", shop.stored["web"])
    (write,) = shop.run()
    assert shop.target() == ONE_CORE
    assert not write.is_first


def test_a_status_with_unreadable_amounts_is_replaced() -> None:
    shop = world()
    shop.run()
    shop.advice()["app"]["target"]["cpu"] = "1e1.5"
    shop.advice()["app"]["lowerBound"]["memory"] = 12
    shop.store("web", shop.stored["web"])
    shop.run()
    assert shop.target() == ONE_CORE


def test_an_own_write_may_be_observed_late_or_twice() -> None:
    shop = world()
    shop.run(observed=False)
    assert shop.run() == []
    shop.put("web")
    shop.put("web")
    assert shop.run() == []


def test_an_edit_in_the_middle_of_a_pass_is_observed_by_the_next() -> None:
    shop = world()
    (write,) = shop.decide().writes
    shop.apply(resourcePolicy=policy(maxAllowed={"cpu": "200m"}))
    shop.write(write)
    assert shop.status()["observedGeneration"] == 1
    shop.run()
    assert shop.status()["observedGeneration"] == 2
    assert shop.target()["cpu"] == "200m"


# What else comes out of a pass


def test_vpas_are_counted_by_upstreams_labels() -> None:
    shop = world(updatePolicy={"updateMode": "Off"})
    shop.apply("idle")
    shop.apply("odd")
    shop.set_state("odd", problem="no such target")
    result = shop.decide()
    assert result.counts == {
        ("Off", True, True, False): 1,
        ("Recreate", False, False, False): 1,
        ("Recreate", False, False, True): 1,
    }
    assert result.vpas == 3


def test_samples_are_compared_with_the_recommendation_in_force() -> None:
    shop = world(resourcePolicy=policy(maxAllowed={"cpu": "300m"}))
    shop.run()
    shop.run_pods("stranger", "app")
    result = shop.decide()
    columns = result.columns
    order = [key.vpa for key in columns.keys]
    assert np.array_equal(columns.get_uncapped_targets()[:, order.index("web")], [1168, 1238659775])
    assert np.array_equal(columns.get_previous_targets()[:, order.index("web")], [1168, 1238659775])
    rows = columns.rows[[order.index("stranger"), order.index("web"), order.index("web")]]
    assert np.array_equal(columns.find_previous_targets(rows)[0], [np.nan, 1168, 1168], equal_nan=True)
    unwritten = WRITTEN_MODES.index(NO_MODE)
    assert columns.find_modes(rows).tolist() == [-1, unwritten, unwritten]


def test_samples_of_containers_that_are_not_sized_are_compared_with_nothing() -> None:
    shop = world(resourcePolicy=policy(mode="Off"))
    shop.run()
    columns = shop.decide().columns
    assert columns.find_modes(columns.rows).tolist() == [-1]


def test_every_container_can_be_explained() -> None:
    shop = world(resourcePolicy=policy(maxAllowed={"cpu": "300m"}))
    (explained,) = shop.decide().explain_vpa(NAMESPACE, "web")
    assert explained.reason is RECOMMENDED
    assert explained.estimates[1].tolist() == [1168, 1238659775]
    assert explained.amounts[0].tolist() == [300, 1238659775]
    assert 0 < explained.confidence < 1
