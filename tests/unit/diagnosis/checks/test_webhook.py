"""The webhook: registration, backend, certificates, dry run."""

from __future__ import annotations

from typing import Any

import pytest

from support.installations.facts import DAY, NOW, state, webhook, workload
from trellis.base.reasons import Reason
from trellis.diagnosis.checks import webhook as checks
from trellis.diagnosis.checks.webhook import ServiceBackend, WebhookCertificate, WebhookFacts, check_webhook
from trellis.diagnosis.findings import ClusterFinding
from trellis.diagnosis.unread import Unread

RUNNING = state("admission", workload("admission"))
ABSENT = state("admission")
SECRET = "Secret kube-system/vpa-tls-certs"  # noqa: S105 - the name of one


def findings(facts: WebhookFacts, *, running: bool = True) -> tuple[ClusterFinding, ...]:
    return check_webhook(facts, RUNNING if running else ABSENT, NOW).findings


def test_a_webhook_that_answers_gives_no_finding() -> None:
    result = check_webhook(webhook(), RUNNING, NOW)
    assert (result.findings, result.summary) == (
        (),
        "2 ready endpoints, failurePolicy Ignore, certificate ends in 74 d",
    )


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"is_registered": False}, checks.WEBHOOK_NOT_REGISTERED, "vpa-webhook-config names no webhook"),
        ({"is_registered": False, "exists": False}, checks.WEBHOOK_NOT_REGISTERED, "does not exist"),
        ({"backend": ServiceBackend("kube-system", "vpa-webhook", 0)}, checks.WEBHOOK_WITHOUT_BACKEND, "no ready"),
        ({"backend": ServiceBackend("kube-system", "vpa-webhook", None)}, checks.WEBHOOK_WITHOUT_BACKEND, "not exist"),
        ({"certificate": WebhookCertificate(NOW - 3 * DAY, SECRET)}, checks.CERTIFICATE_EXPIRED, "3 days ago"),
        ({"certificate": WebhookCertificate(NOW + 2 * DAY, SECRET)}, checks.CERTIFICATE_EXPIRES, "2.0 days"),
        ({"authority_ends": NOW - DAY}, checks.CERTIFICATE_EXPIRED, "CA certificate"),
        (
            {"certificate": WebhookCertificate(NOW + 90 * DAY, SECRET, "it is signed by CN=other")},
            checks.CERTIFICATE_NOT_TRUSTED,
            "CN=other",
        ),
        ({"probe": "failed calling webhook"}, checks.WEBHOOK_REFUSES, "failed calling webhook"),
    ],
)
def test_what_keeps_the_webhook_from_working_is_found(changes: dict[str, Any], reason: Reason, words: str) -> None:
    (finding,) = findings(webhook(**changes))
    assert (finding.reason, words in finding.message, bool(finding.action)) == (reason, True, True)


def test_the_effect_of_a_missing_backend_depends_on_the_policy() -> None:
    dead = ServiceBackend("kube-system", "vpa-webhook", 0)
    (ignored,), (refused,) = findings(webhook(backend=dead)), findings(webhook(backend=dead, failure_policy="Fail"))
    assert "size of their template" in ignored.message
    assert "no pod can be created" in refused.message


def test_a_configuration_without_an_admission_controller_is_left_behind() -> None:
    (finding,) = findings(webhook(backend=ServiceBackend("kube-system", "vpa-webhook", None)), running=False)
    assert finding.reason is checks.WEBHOOK_LEFT_BEHIND
    assert finding.action == "kubectl delete mutatingwebhookconfiguration vpa-webhook-config"


def test_without_an_admission_controller_no_webhook_is_missing() -> None:
    assert findings(WebhookFacts(), running=False) == ()


def test_a_certificate_that_may_not_be_read_is_unknown_and_the_rest_is_checked() -> None:
    unread = Unread("Secret kube-system/x", "may not be read", "get", "secrets", "kube-system", is_forbidden=True)
    result = check_webhook(webhook(certificate=unread), RUNNING, NOW)
    assert (result.findings, [fact.subject for fact in result.unknown]) == ((), [unread.what])
    assert "certificate ends in 3650 d" in result.summary


def test_an_unreadable_configuration_is_essential_only_if_a_webhook_is_expected() -> None:
    unread = Unread("webhook configuration", "may not be read")
    assert check_webhook(unread, RUNNING, NOW).unknown[0].is_essential
    assert not check_webhook(unread, ABSENT, NOW).unknown[0].is_essential
