"""The namespace of an installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.installations.facts import installation, workload
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.policies import LimitRange, ResourceQuota
from trellis.base.reasons import Reason
from trellis.diagnosis.checks import namespace as checks
from trellis.diagnosis.checks.namespace import NamespaceFacts, check_namespace
from trellis.diagnosis.findings import ClusterFinding, Level
from trellis.diagnosis.installation import Installation
from trellis.diagnosis.unread import Unread

CLASSES = frozenset({"system-cluster-critical"})


def quota(hard: Mapping[str, str], used: Mapping[str, str] | None = None) -> ResourceQuota:
    document = {"metadata": {"name": "small"}, "status": {"hard": hard, "used": used or {}}}
    return convert_object(document, ResourceQuota)


def limits(item: Mapping[str, Any]) -> LimitRange:
    return convert_object({"metadata": {"name": "bounds"}, "spec": {"limits": [item]}}, LimitRange)


def check(found: Installation | None = None, **changes: Any) -> tuple[ClusterFinding, ...]:
    facts = NamespaceFacts("kube-system", **{"priority_classes": CLASSES, **changes})
    return check_namespace(facts, found or installation()).findings


def test_a_namespace_without_bounds_is_well() -> None:
    assert check() == ()
    assert check(exists=False) == ()  # the one of the preset, which is created with the installation
    assert check(labels={"pod-security.kubernetes.io/enforce": "restricted"}) == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exists": False, "is_chosen": True}, checks.NAMESPACE_MISSING),
        ({"quotas": (quota({"limits.cpu": "10"}),)}, checks.QUOTA_NEEDS_LIMITS),
        ({"quotas": (quota({"requests.memory": "1Gi"}, {"requests.memory": "1000Mi"}),)}, checks.QUOTA_REFUSES),
        ({"quotas": (quota({"cpu": "1"}, {"cpu": "990m"}),)}, checks.QUOTA_REFUSES),
        ({"quotas": (quota({"pods": "5"}, {"pods": "5"}),)}, checks.QUOTA_REFUSES),
        ({"limit_ranges": (limits({"type": "Container", "max": {"memory": "100Mi"}}),)}, checks.LIMIT_RANGE_REFUSES),
        ({"labels": {"pod-security.kubernetes.io/enforce": "strict"}}, checks.POD_SECURITY_UNKNOWN),
        ({"priority_classes": frozenset()}, checks.PRIORITY_CLASS_MISSING),
    ],
)
def test_what_refuses_pods_is_found(changes: dict[str, Any], reason: Reason) -> None:
    found = {finding.reason for finding in check(**changes)}
    assert found == {reason}
    assert all(finding.action for finding in check(**changes))


def test_a_default_limit_lets_pods_pass_a_quota_on_limits() -> None:
    default = limits({"type": "Container", "default": {"cpu": "1"}})
    assert check(quotas=(quota({"limits.cpu": "10"}),), limit_ranges=(default,)) == ()


def test_a_quota_with_room_and_bounds_above_the_need_refuse_nothing() -> None:
    wide = limits({"type": "Container", "max": {"memory": "4Gi", "cpu": "4"}})
    assert check(quotas=(quota({"requests.memory": "4Gi"}, {"requests.memory": "1Gi"}),), limit_ranges=(wide,)) == ()


def test_a_webhook_without_a_priority_class_is_warned_about_and_other_components_are_not() -> None:
    plain = Installation((workload("admission", priority_class=""), workload("updater", priority_class="")))
    (finding,) = check(plain)
    assert (finding.reason, finding.subject) == (checks.NO_PRIORITY, "kube-system/vpa-admission-controller")


def test_what_may_not_be_read_is_unknown() -> None:
    unread = Unread("quotas", "may not be read")
    facts = NamespaceFacts("kube-system", None, {}, unread, (), unread)
    assert check_namespace(facts, installation()).level is Level.UNKNOWN
