from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.meta import LabelSelector
from trellis.api.kube.policies import LimitRange, PodDisruptionBudget, ResourceQuota


def test_a_disruption_budget_takes_counts_and_percentages() -> None:
    body = {
        "spec": {"minAvailable": "50%", "selector": {}, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {
            "observedGeneration": 4,
            "disruptionsAllowed": 1,
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 4,
            "disruptedPods": {"web-0": "2026-03-01T10:00:00Z"},
        },
    }
    read = decode_object(msgspec.json.encode(body), PodDisruptionBudget)
    assert (read.spec.min_available, read.spec.max_unavailable) == ("50%", None)
    assert read.spec.selector == LabelSelector(), "empty: every pod of the namespace"
    assert read.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
    assert (read.status.disruptions_allowed, read.status.observed_generation) == (1, 4)
    assert read.status.disrupted_pods == {"web-0": datetime(2026, 3, 1, 10, tzinfo=UTC)}


def test_a_disruption_budget_without_selector_is_distinguished_from_one_with_an_empty_selector() -> None:
    read = decode_object(b'{"spec":{"maxUnavailable":1}}', PodDisruptionBudget)
    assert (read.spec.selector, read.spec.max_unavailable) == (None, 1)


def test_a_limit_range_has_bounds_and_defaults_per_type() -> None:
    item = {
        "type": "Container",
        "max": {"cpu": "4"},
        "min": {"cpu": "10m"},
        "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "100m"},
        "maxLimitRequestRatio": {"cpu": "10"},
    }
    [read] = decode_object(msgspec.json.encode({"spec": {"limits": [item]}}), LimitRange).spec.limits
    assert (read.type, read.max["cpu"], read.min["cpu"]) == ("Container", "4", "10m")
    assert (read.default["cpu"], read.default_request["cpu"]) == ("1", "100m")
    assert read.max_limit_request_ratio == {"cpu": "10"}


def test_an_empty_limit_range_has_no_bounds_although_it_writes_null() -> None:
    read = decode_object(b'{"metadata":{"name":"none"},"spec":{"limits":null}}', LimitRange)
    assert (read.metadata.name, read.spec.limits) == ("none", ())


def test_a_quota_has_hard_limits_usage_and_scopes() -> None:
    body = {
        "spec": {
            "hard": {"requests.cpu": "10", "pods": "50"},
            "scopes": ["NotTerminating"],
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
            },
        },
        "status": {"hard": {"requests.cpu": "10"}, "used": {"requests.cpu": "9500m"}},
    }
    read = decode_object(msgspec.json.encode(body), ResourceQuota)
    assert (read.spec.hard["pods"], read.spec.scopes) == ("50", ("NotTerminating",))
    assert read.spec.scope_selector is not None
    assert read.spec.scope_selector.match_expressions[0].values == ("high",)
    assert (read.status.hard["requests.cpu"], read.status.used["requests.cpu"]) == ("10", "9500m")
