from __future__ import annotations

import json

import msgspec
import pytest

from support.builders.collected_clusters import BOOST, NAMESPACE, Cluster, shop
from support.golden_files import assert_golden
from support.worlds.resizes import DAY, NOW, container, time
from trellis.core.cluster.dump_format import MissingData
from trellis.core.explain import ObjectExplanation, explain_pod, explain_recommendation, explain_vpa
from trellis.core.explain.counterfactuals import CounterfactualCode
from trellis.core.explain.explanation.document import CounterfactualPart, InfluencePart, PodPart, VpaPart
from trellis.core.resize.candidates import MODE_DOES_NOT_UPDATE_PODS
from trellis.reports.explain.pods import describe_counterfactual
from trellis.reports.explain.report import as_json, as_text
from trellis.reports.text.quantities import draw_sparkline, format_moment, format_quantity, merge_values

AT = time(NOW)


def boosted() -> Cluster:
    cluster = Cluster()
    annotations = {BOOST: '{"requests":{"cpu":"200m","memory":"1Gi"}}'}
    cluster.add_workload("job", 1, container(cpu="1"), annotations=annotations, ready_for=20.0)
    cluster.add_vpa("job", startupBoost={"cpu": {"type": "Factor", "factor": 5, "duration": "2m"}})
    cluster.missing = [MissingData("PodDisruptionBudget", NAMESPACE, "is forbidden")]
    return cluster


def text(explained: ObjectExplanation, width: int = 100) -> str:
    return "\n".join(as_text(explained, width)) + "\n"


@pytest.mark.parametrize("kind", ["vpa", "pod", "recommendation"])
def test_explanations_are_as_approved(kind: str) -> None:
    evidence = shop().evidence()
    explained = {
        "vpa": lambda: explain_vpa(evidence, "web"),
        "pod": lambda: explain_pod(evidence, "web-1-0"),
        "recommendation": lambda: explain_recommendation(evidence, "web", "app"),
    }[kind]()
    assert_golden(f"explain-{kind}.txt", text(explained))
    assert_golden(f"explain-{kind}.json", as_json(explained).decode())


def test_a_boost_and_a_partial_answer_are_as_approved() -> None:
    assert_golden("explain-boosted.txt", text(explain_pod(boosted().evidence(), "job-1-0")))


def test_no_line_is_wider_than_asked_for_but_a_drawing() -> None:
    for line in as_text(explain_vpa(shop().evidence(), "web"), 60):
        assert len(line) <= 60 or any(block in line for block in "▁▂▃▄▅▆▇█")


def test_a_terminal_without_blocks_gets_plain_characters() -> None:
    lines = list(as_text(explain_vpa(shop().evidence(), "web"), 100, plain=True))
    assert "\n".join(lines).isascii()
    assert draw_sparkline([0.0, 0.5, None, 1.0], plain=True) == ".+ #"
    assert draw_sparkline([0.0, 0.0]) == "▁▁"


def test_values_that_share_a_place_are_shown_by_the_highest() -> None:
    assert merge_values([1.0, 3.0, None, 2.0, None, None, 4.0], 4) == [3.0, 2.0, None, 4.0]
    assert merge_values([1.0, 2.0], 8) == [1.0, 2.0]
    assert merge_values([], 8) == []


def test_pods_with_the_same_reason_are_reported_together() -> None:
    cluster = Cluster()
    cluster.add_workload("web", 12)
    cluster.add_vpa("web", {"app": {"cpu": "500m", "memory": "1Gi"}})
    explanation = text(explain_vpa(cluster.evidence(), "web"))
    assert "12 pods are not changed: SizeAsRecommended." in explanation
    assert "web-1-0, web-1-1, web-1-2 and 9 others" in explanation
    assert explanation.count("SizeAsRecommended: the pod has the recommended size") == 1


def test_a_budget_that_forbids_the_eviction_is_reported_at_once() -> None:
    cluster = Cluster()
    cluster.add_workload("web", 3)
    cluster.add_vpa("web", {"app": {"cpu": "2", "memory": "1Gi"}})
    explained = explain_vpa(cluster.evidence(), "web")
    assert {pod.way for pod in explained.pods} >= {"Evict"}
    refused = "PodDisruptionBudget web allows no disruption now: the API server refuses evictions."
    for allowed, is_reported in ((0, True), (1, False)):
        values = {"minAvailable": 3, "disruptionsAllowed": allowed, "healthy": 3, "desired": 3}
        budget = InfluencePart("PodDisruptionBudget", "web", values)
        first, _, _ = text(msgspec.structs.replace(explained, influences=(budget,)), 120).partition("RECOMMENDATION")
        assert (refused in first) == is_reported


def test_a_target_that_cannot_be_used_comes_before_what_it_would_mean() -> None:
    part = VpaPart("web", "Deployment wbe", "Recreate", "default", problem="Deployment shop/wbe does not exist")
    lines = list(as_text(ObjectExplanation("vpa", "shop", "web", AT, vpa=part)))
    assert lines[2] == "Its target cannot be used. Deployment shop/wbe does not exist."


@pytest.mark.parametrize("turn", list(CounterfactualCode))
def test_everything_that_could_change_has_a_sentence(turn: CounterfactualCode) -> None:
    values: dict[str, str | float | None] = {
        "by": "alice",
        "where": "cluster",
        "why": "incident 7",
        "at": AT,
        "mode": "Off",
        "lease": "a/b",
        "flag": "--some-flag",
        "resources": "cpu,memory",
        "change": "TargetLowerThanRequests",
        "node": "n1",
        "difference": 0.04,
        "threshold": 0.1,
        "living": 1.0,
        "minimum": 2.0,
        "ready": 1.0,
        "least": 2.0,
        "perHour": 5.0,
    }
    sentence = describe_counterfactual(CounterfactualPart(turn.value, values), AT)
    assert sentence
    assert not sentence.endswith(".")


def test_amounts_and_times_read_as_people_write_them() -> None:
    assert format_quantity("memory", "442809964") == "422Mi"
    assert format_quantity("memory", "256Mi") == "256Mi"
    assert format_quantity("memory", "1986499Ki") == "1.89Gi"
    assert format_quantity("memory", "1536Mi") == "1536Mi"
    assert format_quantity("memory", "351199559680m") == "335Mi"
    assert format_quantity("cpu", "") == "none"
    assert format_quantity("cpu", "2359m") == "2359m"
    assert format_quantity("cpu", "53202m") == "53.2"
    assert format_quantity("nvidia.com/gpu", "10000") == "10000"
    assert format_moment(time(NOW + 180), AT) == "08:03 UTC, in 3 min"
    assert format_moment(time(NOW + 100), AT) == "08:01 UTC, in 1 min 40 s"
    assert format_moment(time(NOW + 90_061), AT) == "2027-01-16 09:01 UTC, in 1 d 1 h"
    assert format_moment(time(NOW - 2 * DAY), AT) == "2027-01-13 08:00 UTC, 2 d ago"


def test_json_has_the_codes_and_nothing_that_is_empty() -> None:
    part = PodPart("p", "", "Leave", MODE_DOES_NOT_UPDATE_PODS)
    document = json.loads(as_json(ObjectExplanation("pod", "shop", "p", AT, pods=(part,))))
    assert document == {
        "kind": "pod",
        "namespace": "shop",
        "name": "p",
        "time": AT,
        "pods": [
            {
                "name": "p",
                "by": "",
                "way": "Leave",
                "reason": {
                    "code": "ModeDoesNotUpdatePods",
                    "meaning": "The update mode does not change running pods.",
                    "severity": "info",
                },
            }
        ],
    }


def test_what_could_not_be_read_is_reported_once_for_each_reason_and_cause() -> None:
    cluster = boosted()
    cluster.missing += [
        MissingData("LimitRange", "shop", "may not be read"),
        MissingData("Node", "", "may not be read"),
    ]
    explanation = text(explain_vpa(cluster.evidence(), "job"), 1000)
    assert explanation.count("ObjectsNotObserved") == 1
    assert "(PodDisruptionBudget in shop: is forbidden; LimitRange in shop, Node: may not be read)." in explanation
