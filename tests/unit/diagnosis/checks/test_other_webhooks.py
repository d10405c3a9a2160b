"""Webhooks of other programs."""

from __future__ import annotations

from trellis.diagnosis.checks import other_webhooks
from trellis.diagnosis.checks.other_webhooks import ForeignWebhook, check_other_webhooks
from trellis.diagnosis.checks.webhook import ServiceBackend
from trellis.diagnosis.findings import Level
from trellis.diagnosis.unread import Unread

DEAD = ServiceBackend("policy", "gate", 0)
ALIVE = ServiceBackend("istio-system", "istiod", 1)


def test_webhooks_that_answer_are_listed_with_their_order() -> None:
    webhooks = [
        ForeignWebhook("istio-injector", "sidecar", backend=ALIVE),
        ForeignWebhook("zz-defaults", "last", backend=ALIVE),
    ]
    result = check_other_webhooks(webhooks)
    assert (result.level, result.summary) == (
        Level.OK,
        "2 configurations may change pods: istio-injector, zz-defaults; called after Trellis: zz-defaults",
    )


def test_a_webhook_that_sees_resizes_is_named() -> None:
    webhook = ForeignWebhook("defaults", "resources", sees_resizes=True, backend=ALIVE)
    assert check_other_webhooks([webhook]).summary.endswith("; called for resizes too: defaults")


def test_a_dead_webhook_that_must_answer_blocks_pods() -> None:
    for mutates, kind in ((True, "mutatingwebhookconfiguration"), (False, "validatingwebhookconfiguration")):
        (finding,) = check_other_webhooks([ForeignWebhook("gate", "gate.io", mutates=mutates, backend=DEAD)]).findings
        assert finding.reason is other_webhooks.WEBHOOK_BLOCKS_PODS
        assert "all pods are refused" in finding.message
        assert finding.action.endswith(f"kubectl delete {kind} gate")


def test_a_dead_webhook_without_a_service_object_blocks_too_and_one_that_may_fail_does_not() -> None:
    missing = ServiceBackend("policy", "gate", None)
    assert check_other_webhooks([ForeignWebhook("gate", "gate.io", backend=missing)]).findings
    assert not check_other_webhooks([ForeignWebhook("gate", "gate.io", failure_policy="Ignore", backend=DEAD)]).findings
    unknown = ServiceBackend("policy", "gate", Unread("endpoints", "may not be read"))
    assert not check_other_webhooks([ForeignWebhook("gate", "gate.io", backend=unknown)]).findings


def test_a_selective_webhook_blocks_only_what_it_selects() -> None:
    (finding,) = check_other_webhooks([ForeignWebhook("gate", "gate.io", is_selective=True, backend=DEAD)]).findings
    assert "pods that it selects are refused" in finding.message


def test_another_program_that_sizes_pods_is_named() -> None:
    (finding,) = check_other_webhooks([ForeignWebhook("kube-startup-cpu-boost", "mutate", backend=ALIVE)]).findings
    assert finding.reason is other_webhooks.WEBHOOK_CHANGES_SIZES
    assert "before Trellis" in finding.message


def test_none_or_unknown() -> None:
    assert check_other_webhooks(()).summary == "none changes pods"
    assert check_other_webhooks(Unread("webhooks", "may not be read")).level is Level.UNKNOWN
