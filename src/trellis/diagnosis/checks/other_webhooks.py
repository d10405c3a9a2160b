"""Checks webhooks of other programs: those that block pods because they are down, and those that change sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.base.wording import pluralize
from trellis.diagnosis.checks.webhook import CONFIGURATION, ServiceBackend
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.unread import Unread

WEBHOOK_BLOCKS_PODS = Reason(
    "WebhookBlocksPods",
    "A webhook without a backend refuses all pods: a pod that is evicted does not come back.",
    Severity.ERROR,
)
WEBHOOK_CHANGES_SIZES = Reason(
    "WebhookChangesSizes", "Another program changes the resources of new pods too.", Severity.WARNING
)

# Programs that set requests of new pods, by a part of the name of their configuration or webhook.
_SIZERS: Final = ("vpa", "startup-cpu-boost", "castai", "right-siz", "rightsiz", "stormforge", "perfectscale")
_SHOWN: Final = 3


class ForeignWebhook(msgspec.Struct, frozen=True):
    """A webhook of another program that sees pods when they are created, or their resizes."""

    configuration: str
    name: str
    mutates: bool = True
    sees_pods: bool = True
    sees_resizes: bool = False
    failure_policy: str = "Fail"
    is_selective: bool = False
    backend: ServiceBackend | None = None

    @property
    def is_dead(self) -> bool:
        """Whether no endpoint can answer for it."""
        backend = self.backend
        return backend is not None and not isinstance(backend.ready, Unread) and not backend.ready


def check_other_webhooks(webhooks: Sequence[ForeignWebhook] | Unread) -> ClusterCheck:
    """Webhooks in the way."""
    name = "other webhooks"
    if isinstance(webhooks, Unread):
        return ClusterCheck(name, unknown=(webhooks.to_unknown(),))
    findings = [finding for webhook in webhooks for finding in _check(webhook)]
    mutating = [webhook for webhook in webhooks if webhook.mutates and webhook.sees_pods]
    if not mutating:
        return ClusterCheck(name, "none changes pods", tuple(findings))
    # The API server calls mutating webhooks in the order of the names of their configurations.
    later = [webhook.configuration for webhook in mutating if webhook.configuration > CONFIGURATION]
    names = list(dict.fromkeys(webhook.configuration for webhook in mutating))
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    summary = f"{pluralize(len(names), 'configuration')} may change pods: {shown}"
    if later:
        summary += f"; called after Trellis: {', '.join(dict.fromkeys(later))}"
    resizes = [webhook.configuration for webhook in webhooks if webhook.mutates and webhook.sees_resizes]
    if resizes:
        summary += f"; called for resizes too: {', '.join(dict.fromkeys(resizes))}"
    return ClusterCheck(name, summary, tuple(findings))


def _check(webhook: ForeignWebhook) -> Iterator[ClusterFinding]:
    kind = "mutatingwebhookconfiguration" if webhook.mutates else "validatingwebhookconfiguration"
    if webhook.is_dead and webhook.failure_policy == "Fail" and webhook.backend is not None:
        some = "pods that it selects" if webhook.is_selective else "all pods"
        yield ClusterFinding(
            WEBHOOK_BLOCKS_PODS,
            webhook.configuration,
            f"{webhook.name} has failurePolicy Fail, and Service {webhook.backend.label} no ready endpoint: {some} "
            "are refused",
            f"repair its Service, or kubectl delete {kind} {webhook.configuration}",
        )
    if webhook.mutates and _is_sizer(webhook):
        order = "after" if webhook.configuration > CONFIGURATION else "before"
        yield ClusterFinding(
            WEBHOOK_CHANGES_SIZES,
            webhook.configuration,
            f"{webhook.name} changes sizes of pods too, and is called {order} Trellis",
            f"let one program size a pod: exclude namespaces, or kubectl delete {kind} {webhook.configuration}",
        )


def _is_sizer(webhook: ForeignWebhook) -> bool:
    names = f"{webhook.configuration} {webhook.name}".lower()
    return any(word in names for word in _SIZERS)
