"""Explanations have the decisions of the last pass."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from support.worlds.vpas import NAMESPACE, Stub, World
from trellis.core.recommend.explanations import LastPass, describe_vpa, summarize_vpa
from trellis.core.recommend.parameters import Parameter, ParameterKind
from trellis.core.recommend.protocol import Estimates, Explanations, Rows
from trellis.core.recommend.state.tables import SHADOW_RECOMMENDERS

GOOD, OTHER = (500.0, 1000.0, 2000.0), (1000.0, 1500.0, 3000.0)


class Talkative(Stub):
    """Says of each row which container it is, and something that cannot be written as JSON."""

    parameters: tuple[Parameter, ...] = (Parameter("pace", ParameterKind.NUMBER, "How fast.", 2.0, "", 0.0, 9.0),)  # type: ignore[assignment]

    def estimate(self, rows: Rows, values: Any, now: float, /) -> Estimates:
        result = super().estimate(rows, values, now)
        names = [key.container for key in rows.keys]
        nothing, much = np.full(len(rows), math.nan), np.full(len(rows), math.inf)
        explanations: Explanations = {"container": names, "nothing": nothing, "much": much}
        return Estimates(result.bounds, None, result.confidence, explanations)


def passed(shop: World) -> LastPass:
    """A pass whose writes are carried out; the events come later."""
    result = shop.decide()
    for write in result.writes:
        shop.write(write, observed=False)
    return LastPass.build(result, shop.vpa_store, result.writes, shop.now)


def describe(last: LastPass, name: str = "web") -> dict[str, Any]:
    """The document, as it comes out of JSON."""
    result: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(describe_vpa(last, last.find(NAMESPACE, name))))
    return result


def world(*recommenders: Stub, **spec: Any) -> World:
    shop = World(*recommenders)
    shop.apply(**spec)
    shop.run_pods("web", "proxy", "app")
    shop.ingest_usage()
    return shop


def test_the_document_has_the_recommender_its_estimates_and_the_outcome() -> None:
    policy = {"containerPolicies": [{"containerName": "app", "maxAllowed": {"cpu": "750m", "memory": "1G"}}]}
    shop = world(Talkative("default", GOOD), resourcePolicy=policy)
    result = describe(passed(shop))
    assert (result["recommender"], result["given"], result["parameters"]) == ("default", {}, {"pace": 2.0})
    app, proxy = result["containers"]
    assert (app["name"], app["recommender"], app["reason"]) == ("app", "default", "Recommended")
    assert app["explanation"] == {"container": "app", "nothing": None, "much": None}
    assert app["found"] == {
        "lowerBound": {"cpu": "500m", "memory": "1000000000"},
        "target": {"cpu": "1", "memory": "1953125Ki"},
        "upperBound": {"cpu": "2", "memory": "3000000000"},
    }
    assert app["recommended"]["target"] == {"cpu": "750m", "memory": "1G"}
    assert app["recommended"]["uncappedTarget"] == app["found"]["target"]
    assert proxy["recommended"]["target"] == app["found"]["target"]
    assert (app["samples"], app["lastSample"]) == (1, "2023-11-14T22:14:20Z")


def test_written_values_are_reported_as_published() -> None:
    stub = Stub("default", GOOD)
    shop = world(stub)
    last = passed(shop)
    for container in describe(last)["containers"]:
        assert {"containerName": container["name"], **container["published"]} == shop.advice()[container["name"]]
    shop.put("web")
    stub.cpu = (510.0, 1020.0, 2000.0)  # too little to be written at once
    app = describe(passed(shop))["containers"][0]
    assert (app["recommended"]["target"]["cpu"], app["published"]["target"]["cpu"]) == ("1020m", "1")
    assert {"containerName": "app", **app["published"]} == shop.advice()["app"]


def test_conditions_equal_those_of_the_status() -> None:
    stub = Talkative("default", GOOD)
    stub.confidence = 0.25
    shop = world(stub)
    last = passed(shop)
    assert describe(last)["conditions"] == shop.status()["conditions"]
    assert "container app has a history of 1 samples" in shop.conditions()["LowConfidence"]["message"]
    assert describe(last)["containers"][0]["confidence"] == 0.25
    shop.set_state(problem="no such thing", problem_reason="TargetNotFound")
    assert describe(passed(shop))["conditions"] == shop.status()["conditions"]


def test_a_failure_is_reported_with_the_published_recommendation() -> None:
    stub = Talkative("default", GOOD)
    shop = world(stub)
    passed(shop)
    shop.put("web")
    stub.error = ValueError("no")
    result = describe(passed(shop))
    assert result["failure"] == 'recommender default failed: ValueError: "no"'
    assert result["conditions"] == shop.status()["conditions"]
    app = result["containers"][0]
    assert (app["reason"], app["recommender"], app["found"]) == ("RecommendationKept", "", {})
    assert app["recommended"] == app["published"]
    assert app["published"]["target"]["cpu"] == "1"


def test_a_retained_pass_does_not_change_with_the_next_one() -> None:
    stub = Talkative("default", GOOD)
    shop = world(stub)
    stub.error = ValueError("no")
    last = passed(shop)
    before = describe(last)
    stub.error = None
    shop.apply("another")
    shop.run_pods("another")
    shop.ingest_usage(vpa="another")
    passed(shop)
    assert describe(last)["failure"] == before["failure"]
    assert describe(last)["containers"] == before["containers"]
    shop.vpa_store.drop(NAMESPACE, "web")
    assert describe(last)["containers"] == before["containers"]


def test_each_shadow_has_its_estimates_or_its_failure_for_this_vpa() -> None:
    class Half(Stub):
        def estimate(self, rows: Rows, values: Any, now: float, /) -> Estimates:
            result = super().estimate(rows, values, now)
            result.bounds[0, 0, [key.vpa == "bad" for key in rows.keys]] = -1
            return result

    shop = World(Stub("default", GOOD), Talkative("other", OTHER), Half("half", OTHER))
    for name in ("web", "bad"):
        shop.apply(name, annotations={SHADOW_RECOMMENDERS: "other,half,nobody"})
        shop.run_pods(name)
        shop.ingest_usage(vpa=name)
    last = passed(shop)
    result = {name: describe(last, name) for name in ("web", "bad")}
    for name, document in result.items():
        [app] = document["containers"]
        assert app["recommended"]["target"]["cpu"] == "1"
        assert app["shadows"]["other"]["found"]["target"]["cpu"] == "1500m"
        assert app["shadows"]["other"]["explanation"]["container"] == "app"
        assert document["shadowsNotRunning"] == ["nobody"]
        assert ("invalid recommendation" in app["shadows"]["half"]["failure"]) == (name == "bad")
        assert bool(app["shadows"]["half"]["found"]) == (name == "web")


def test_a_bad_parameter_is_a_condition_and_no_recommender_is_called() -> None:
    shop = world(Talkative("default", GOOD), recommenders=[{"name": "default", "parameters": {"pace": "99"}}])
    result = describe(passed(shop))
    [unsupported] = [condition for condition in result["conditions"] if condition["type"] == "ConfigUnsupported"]
    assert "pace" in unsupported["message"]
    assert (result["given"], result["parameters"]) == ({"pace": "99"}, {})
    assert [container["reason"] for container in result["containers"]] == ["NoSamples", "NoSamples"]


def test_where_every_container_is_off_the_condition_equals_the_written_one() -> None:
    shop = world(Stub("default", GOOD), resourcePolicy={"containerPolicies": [{"containerName": "*", "mode": "Off"}]})
    result = describe(passed(shop))
    [provided] = result["conditions"]
    assert (provided["status"], provided["reason"]) == ("False", "NothingToSize")
    assert [container["reason"] for container in result["containers"]] == ["ContainerOff", "ContainerOff"]


def test_a_vpa_without_pods_has_no_containers_to_report() -> None:
    shop = World(Stub("default", GOOD))
    shop.apply()
    result = describe(passed(shop))
    assert result["containers"] == []
    assert {condition["type"]: condition["status"] for condition in result["conditions"]} == {
        "NoPodsMatched": "True",
        "RecommendationProvided": "False",
    }


def test_before_the_target_is_read_no_conditions_are_reported() -> None:
    shop = World(Stub("default", GOOD))
    shop.apply()
    shop.vpa_store.drop(NAMESPACE, "web")
    shop.put("web")
    last = passed(shop)
    assert describe(last)["conditions"] == []


def test_in_a_list_a_vpa_is_a_line() -> None:
    shop = World(Stub("default", GOOD), Stub("other", OTHER))
    shop.apply(annotations={SHADOW_RECOMMENDERS: "other"})
    shop.apply("db", recommenders=[{"name": "other"}])
    shop.run_pods()
    shop.ingest_usage()
    last = passed(shop)
    assert [key for key, _ in last.list_vpas()] == [(NAMESPACE, "db"), (NAMESPACE, "web")]
    db, web = (summarize_vpa(last, number) for _, number in last.list_vpas(NAMESPACE))
    assert db == {"namespace": NAMESPACE, "name": "db", "recommender": "other", "conditions": ["NoPodsMatched"]}
    assert web["shadows"] == ["other"]
    assert web["conditions"] == ["RecommendationProvided"]
    assert last.list_vpas("elsewhere") == []
    assert last.find("elsewhere", "web") == -1


@pytest.mark.parametrize("containers", [0, 1, 50])
def test_a_retained_pass_has_columns_and_no_statuses(containers: int) -> None:
    shop = World(Stub("default", GOOD))
    shop.apply()
    if containers:
        shop.run_pods("web", *(f"c{number}" for number in range(containers)))
        shop.ingest_usage()
    last = passed(shop)
    assert last.result.writes == []
    assert (len(last.messages), len(last.entries)) == (0, 1)
    assert len(describe(last)["containers"]) == containers
