"""Pods in namespaces with LimitRanges get the sizes that upstream's own packages give them.

The cases were drawn at random and sized by `GetContainersResourcesForPod` of vertical-pod-autoscaler 1.8.1. Only those
are kept that the API server admits. Left out is what Trellis does otherwise on purpose: `RequestsOnly`, whose limits
upstream scales on paper only, and sidecars, which upstream does not count.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from support.builders.pods import Document, limit_ranges, policies, read_shape, resized
from support.oracles.pod_admission import amounts, list_problems, with_defaults
from trellis.core.recommend.amounts import parse_amounts
from trellis.core.recommend.capping import RecommendedResources
from trellis.core.sizing import size_pod

CASES = json.loads((Path(__file__).parents[3] / "golden" / "upstream-pod-limit-ranges.json").read_text())
# Upstream cuts off a limit before it adds it to the others, Trellis adds exact fractions.
ROUNDING = {"cpu": Fraction(2, 1000), "memory": Fraction(2)}


def sized(case: Document) -> Document:
    pod = with_defaults({"metadata": {"uid": "u-1"}, "spec": case["pod"]})
    advice = [RecommendedResources(name, parse_amounts(target)) for name, target in case["recommended"].items()]
    size = size_pod(read_shape(pod), advice, policies(*case["policies"]), limit_ranges(*case["limits"]))
    return resized(pod, size)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_pod_under_limit_ranges_is_sized_as_upstream_sizes_it(number: int) -> None:
    case = CASES[number]
    document = sized(case)
    assert not list_problems(document, [item for item in case["limits"] if item["type"] in {"Pod", "Container"}])
    for container in document["spec"]["containers"]:
        for field in ("requests", "limits"):
            ours = amounts(container["resources"].get(field))
            theirs = amounts(case["sized"][container["name"]].get(field))
            for resource, rounding in ROUNDING.items():
                difference = abs(ours.get(resource, Fraction(0)) - theirs.get(resource, Fraction(0)))
                assert difference <= rounding, (container["name"], field, resource)


def test_the_cases_scale_containers_without_a_recommendation() -> None:
    scaled = [
        container
        for case in CASES
        for container in case["pod"]["containers"]
        if container["name"] not in case["recommended"]
        and amounts(container["resources"].get("requests")) != amounts(case["sized"][container["name"]].get("requests"))
    ]
    assert len(scaled) > 20
