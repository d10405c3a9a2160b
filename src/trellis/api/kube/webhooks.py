"""MutatingWebhookConfiguration: the registration of admission webhooks."""

from __future__ import annotations

from trellis.api.kube.meta import KubeObject, LabelSelector
from trellis.api.kube.slices import Slice


class ServiceReference(Slice, frozen=True):
    """The service of a webhook. The API server fills in port 443."""

    namespace: str = ""
    name: str = ""
    path: str = ""
    port: int = 443


class WebhookClientConfig(Slice, frozen=True):
    """The address of a webhook: a URL or a service. `ca_bundle` is PEM in base64, as on the wire."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: str = ""


class RuleWithOperations(Slice, frozen=True):
    """The requests of a webhook: any of these operations on any of these resources."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = ""


class MatchCondition(Slice, frozen=True):
    """A CEL expression that must hold for the webhook to be called."""

    name: str = ""
    expression: str = ""


class MutatingWebhook(Slice, frozen=True):
    """One webhook. `failure_policy` decides about a request when the webhook does not respond."""

    name: str = ""
    client_config: WebhookClientConfig = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failure_policy: str = ""
    match_policy: str = ""
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str = ""
    timeout_seconds: int | None = None
    admission_review_versions: tuple[str, ...] = ()
    reinvocation_policy: str = ""
    match_conditions: tuple[MatchCondition, ...] = ()


class MutatingWebhookConfiguration(KubeObject, frozen=True):
    """A set of webhooks; the list stands at the top, without a spec around it."""

    webhooks: tuple[MutatingWebhook, ...] = ()
