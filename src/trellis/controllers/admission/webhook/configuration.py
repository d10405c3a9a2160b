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

# Kinds that upstream does not have. They are reviewed where they are served.
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
    """Build the configuration. `plurals` are the resources of Trellis' own kinds that the API server serves."""
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
        client_config=_client_config(settings, bundle),
        rules=rules,
        failure_policy="Fail" if settings.webhook_failure_policy_fail else "Ignore",
        match_policy="Equivalent",
        namespace_selector=LabelSelector(match_expressions=_namespace_requirements(settings, scope)),
        object_selector=LabelSelector(match_expressions=_object_requirements(settings)),
        side_effects="None",
        timeout_seconds=settings.webhook_timeout_seconds,
        admission_review_versions=("v1",),
        reinvocation_policy=settings.webhook_reinvocation_policy,
    )


def _client_config(settings: RegistrationSettings, bundle: bytes) -> WebhookClientConfig:
    encoded = b64encode(bundle).decode()
    if settings.register_by_url:
        return WebhookClientConfig(url=settings.url, ca_bundle=encoded)
    service = ServiceReference(namespace=settings.namespace, name=settings.webhook_service)
    return WebhookClientConfig(service=service, ca_bundle=encoded)


def _namespace_requirements(
    settings: RegistrationSettings, scope: ScopeSettings
) -> tuple[LabelSelectorRequirement, ...]:
    """Select the namespaces in scope. Without a restriction this is empty: a selector is evaluated for every pod."""
    requirements: tuple[LabelSelectorRequirement, ...] = ()
    if scope.vpa_object_namespace:
        requirements = (LabelSelectorRequirement(_NAMESPACE_NAME, "In", (scope.vpa_object_namespace,)),)
    elif scope.ignored_vpa_object_namespaces:
        ignored = tuple(sorted(set(scope.ignored_vpa_object_namespaces)))
        requirements = (LabelSelectorRequirement(_NAMESPACE_NAME, "NotIn", ignored),)
    return requirements + _parse_requirements(settings.webhook_namespace_selector)


def _object_requirements(settings: RegistrationSettings) -> tuple[LabelSelectorRequirement, ...]:
    """Select the objects to review. Under failure policy Fail the own pods are exempt, or the first could not start."""
    key, value = OWN_POD
    own = (LabelSelectorRequirement(key, "NotIn", (value,)),) if settings.webhook_failure_policy_fail else ()
    return own + _parse_requirements(settings.webhook_object_selector)


def _parse_requirements(text: str) -> tuple[LabelSelectorRequirement, ...]:
    return tuple(map(_to_requirement, parse_selector(text).requirements))


def _to_requirement(requirement: LabelRequirement) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(requirement.key, _OPERATORS[requirement.operator], requirement.values)
