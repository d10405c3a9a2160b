"""Builds the webhook configuration: which objects are reviewed, by which service, and its failure policy.

Names and rules are upstream's, so that either replaces the other. Every default of the API server is written out,
because the stored configuration is compared with this one.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection
from typing import Final

from trellis.api import registry
from trellis.api.kube.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from trellis.api.kube.webhooks import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ServiceReference,
    WebhookClientConfig,
)
from trellis.base.selectors import LabelOperator, LabelRequirement, parse_selector
from trellis.controllers.admission.settings import RegistrationSettings, read_labels
from trellis.runtime.settings.component import ScopeSettings

NAME: Final = "vpa-webhook-config"
PODS_AND_VPAS: Final = "vpa.k8s.io"
OBJECTS: Final = "objects.autoscaling.x-k8s.io"

# Kinds of ours that upstream does not have; asked about where they are served.
OWN_KINDS: Final = (registry.HVPA, registry.BUFFER)

# The label by which upstream's Service and ours find the webhook's own pods.
OWN_POD: Final = ("app", "vpa-admission-controller")
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_OPERATORS: Final = {
    LabelOperator.EQUALS: "In",
    LabelOperator.DOUBLE_EQUALS: "In",
    LabelOperator.IN: "In",
    LabelOperator.NOT_EQUALS: "NotIn",
    LabelOperator.NOT_IN: "NotIn",
    LabelOperator.EXISTS: "Exists",
    LabelOperator.DOES_NOT_EXIST: "DoesNotExist",
}


def build_configuration(
    settings: RegistrationSettings, scope: ScopeSettings, bundle: bytes, plurals: Collection[str]
) -> MutatingWebhookConfiguration:
    """The whole of it; `plurals` are those of our own kinds that the server has."""
    webhooks = [
        _webhook(PODS_AND_VPAS, (_PODS, _rule(registry.VPA.group, registry.VPA.plural)), settings, scope, bundle)
    ]
    own = [kind.plural for kind in OWN_KINDS if kind.plural in plurals]
    if own:
        rules = (_rule(OWN_KINDS[0].group, *own),)
        webhooks.append(_webhook(OBJECTS, rules, settings, scope, bundle))
    metadata = ObjectMeta(name=NAME, labels=read_labels(settings.webhook_labels))
    return MutatingWebhookConfiguration(metadata=metadata, webhooks=tuple(webhooks))


def _rule(group: str, *plurals: str) -> RuleWithOperations:
    return RuleWithOperations(("CREATE", "UPDATE"), (group,), ("*",), plurals, "*")


_PODS: Final = RuleWithOperations(("CREATE",), ("",), ("v1",), ("pods",), "*")


def _webhook(
    name: str,
    rules: tuple[RuleWithOperations, ...],
    settings: RegistrationSettings,
    scope: ScopeSettings,
    bundle: bytes,
) -> MutatingWebhook:
    return MutatingWebhook(
        name=name,
        client_config=_client(settings, bundle),
        rules=rules,
        failure_policy="Fail" if settings.webhook_failure_policy_fail else "Ignore",
        match_policy="Equivalent",
        namespace_selector=LabelSelector(match_expressions=_namespaces(settings, scope)),
        object_selector=LabelSelector(match_expressions=_objects(settings)),
        side_effects="None",
        timeout_seconds=settings.webhook_timeout_seconds,
        admission_review_versions=("v1",),
        reinvocation_policy=settings.webhook_reinvocation_policy,
    )


def _client(settings: RegistrationSettings, bundle: bytes) -> WebhookClientConfig:
    encoded = b64encode(bundle).decode()
    if settings.register_by_url:
        return WebhookClientConfig(url=settings.url, ca_bundle=encoded)
    service = ServiceReference(namespace=settings.namespace, name=settings.webhook_service)
    return WebhookClientConfig(service=service, ca_bundle=encoded)


def _namespaces(settings: RegistrationSettings, scope: ScopeSettings) -> tuple[LabelSelectorRequirement, ...]:
    """Nothing where every namespace is ours: a condition that always holds is still asked for every pod."""
    named: tuple[LabelSelectorRequirement, ...] = ()
    if scope.vpa_object_namespace:
        named = (LabelSelectorRequirement(_NAMESPACE_NAME, "In", (scope.vpa_object_namespace,)),)
    elif scope.ignored_vpa_object_namespaces:
        ignored = tuple(sorted(set(scope.ignored_vpa_object_namespaces)))
        named = (LabelSelectorRequirement(_NAMESPACE_NAME, "NotIn", ignored),)
    return named + _written(settings.webhook_namespace_selector)


def _objects(settings: RegistrationSettings) -> tuple[LabelSelectorRequirement, ...]:
    """Where no answer is a refusal, our own pods are not asked about: the first of them could never start."""
    key, value = OWN_POD
    own = (LabelSelectorRequirement(key, "NotIn", (value,)),) if settings.webhook_failure_policy_fail else ()
    return own + _written(settings.webhook_object_selector)


def _written(text: str) -> tuple[LabelSelectorRequirement, ...]:
    return tuple(map(_as_object, parse_selector(text).requirements))


def _as_object(wanted: LabelRequirement) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(wanted.key, _OPERATORS[wanted.operator], wanted.values)
