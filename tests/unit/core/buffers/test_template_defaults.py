"""Requests and limits that the API server would give to the containers of a template."""

from __future__ import annotations

from typing import Any

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.policies import LimitRange
from trellis.core.buffers.template_defaults import with_default_requests, with_namespace_defaults


def pod_spec(document: dict[str, Any]) -> PodSpec:
    return convert_object(document, PodSpec)


def limit_range(name: str, *limits: dict[str, Any]) -> LimitRange:
    return convert_object({"metadata": {"name": name}, "spec": {"limits": list(limits)}}, LimitRange)


def amounts(spec: PodSpec) -> list[tuple[dict[str, str], dict[str, str]]]:
    return [
        (dict(container.resources.requests), dict(container.resources.limits))
        for container in (*spec.containers, *spec.init_containers)
    ]


SPEC: dict[str, Any] = {
    "containers": [{"name": "bare"}, {"name": "limited", "resources": {"limits": {"cpu": "2"}}}],
    "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "1"}}}],
}


def test_a_limit_without_a_request_is_the_request() -> None:
    assert amounts(with_default_requests(pod_spec(SPEC))) == [
        ({}, {}),
        ({"cpu": "2"}, {"cpu": "2"}),
        ({"cpu": "1"}, {}),
    ]


def test_the_defaults_of_a_limit_range_fill_what_is_missing() -> None:
    defaults = limit_range("x", {"type": "Container", "default": {"cpu": "3"}, "defaultRequest": {"cpu": "500m"}})
    assert amounts(with_namespace_defaults(pod_spec(SPEC), [defaults])) == [
        ({"cpu": "500m"}, {"cpu": "3"}),
        ({"cpu": "2"}, {"cpu": "2"}),
        ({"cpu": "1"}, {"cpu": "3"}),
    ]


def test_only_items_for_containers_have_defaults_and_the_first_range_comes_first() -> None:
    ranges = [
        limit_range("b", {"type": "Container", "defaultRequest": {"cpu": "9", "memory": "1Gi"}}),
        limit_range("a", {"type": "Container", "defaultRequest": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "7"}}),
    ]
    [bare, *_] = amounts(with_namespace_defaults(pod_spec(SPEC), ranges))
    assert bare == ({"cpu": "1", "memory": "1Gi"}, {})


def test_a_spec_without_gaps_stays_as_it_is() -> None:
    spec = pod_spec({"containers": [{"name": "full", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]})
    assert with_namespace_defaults(spec, [limit_range("x", {"type": "Container", "default": {"cpu": "3"}})]) == spec
