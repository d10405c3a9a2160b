"""Builds the webhook configuration of the admission controller, and keeps it registered with the right authority.

Names and rules are upstream's, so that either replaces the other. Every default of the API server is written out,
because the stored configuration is compared with this one.

The configuration is changed in place: there is no moment without it, as there is when it is deleted and created again.
An authority in it that is not ours stays for some minutes, so that a replica whose file or Secret is older, or
upstream's webhook until its last pod is gone, is still trusted while certificates are being replaced.
"""

from __future__ import annotations

import asyncio
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from trellis.api import registry
from trellis.api.kube.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from trellis.api.kube.webhooks import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ServiceReference,
    WebhookClientConfig,
)
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.base.selectors import LabelOperator, LabelRequirement, parse_selector
from trellis.controllers.admission.certificates.key_pairs import split_authorities
from trellis.controllers.admission.metrics import REGISTERED
from trellis.controllers.admission.settings import RegistrationSettings, read_labels
from trellis.kube.client import Client
from trellis.kube.resources import MUTATING_WEBHOOKS
from trellis.kube.transport import requests, responses
from trellis.kube.write.actions import Action, CreateObject, PatchObject, Target, build_target
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.passes import PassReport, Periodic
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

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
    own_plurals = [kind.plural for kind in OWN_KINDS if kind.plural in plurals]
    if own_plurals:
        rules = (_rule(OWN_KINDS[0].group, *own_plurals),)
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
        requirements = (
            LabelSelectorRequirement(_NAMESPACE_NAME, "In", tuple(sorted(set(scope.vpa_object_namespace)))),
        )
    elif scope.ignored_vpa_object_namespaces:
        ignored = tuple(sorted(set(scope.ignored_vpa_object_namespaces)))
        requirements = (LabelSelectorRequirement(_NAMESPACE_NAME, "NotIn", ignored),)
    return requirements + _parse_requirements(settings.webhook_namespace_selector)


def _object_requirements(settings: RegistrationSettings) -> tuple[LabelSelectorRequirement, ...]:
    """Select the objects to review. Under failure policy Fail the own pods are exempt, or the first could not start."""
    key, value = OWN_POD
    exemptions = (LabelSelectorRequirement(key, "NotIn", (value,)),) if settings.webhook_failure_policy_fail else ()
    return exemptions + _parse_requirements(settings.webhook_object_selector)


def _parse_requirements(text: str) -> tuple[LabelSelectorRequirement, ...]:
    return tuple(map(_to_requirement, parse_selector(text).requirements))


def _to_requirement(requirement: LabelRequirement) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(requirement.key, _OPERATORS[requirement.operator], requirement.values)


INTERVAL: Final = 10.0
# How long an authority that this replica does not know stays in the configuration. The kubelet brings a changed Secret
# to every node within two minutes.
HANDOVER: Final = 300.0
# After a conflict the configuration is read and compared again.
_ATTEMPTS: Final = 3
_OWN_GROUP: Final = f"/apis/{registry.HVPA.api_version}"

_log: Final = Logger("trellis.admission")


class WebhookRegistration:
    """Keeps the webhook configuration right. `run` in a task of its own; `wake` when the bundle has changed."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: RegistrationSettings,
        *,
        scope: ScopeSettings,
        bundle: Callable[[], bytes],
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._writer = writer
        self._settings = settings
        self._scope = scope
        self._bundle = bundle
        self._metrics = metrics
        self._problem: str | None = "not checked yet"
        self._reported: str | None = None
        self._registered = asyncio.Event()
        self._plurals: frozenset[str] = frozenset()
        self._foreign_since: dict[bytes, float] = {}
        self._loop = Periodic("registration", self.reconcile, INTERVAL, on_pass=self._report_pass)
        metrics.set(REGISTERED, 0 if settings.register_webhook else math.nan)

    def find_registration_problem(self) -> str | None:
        """Return why the API server sends no reviews; None if it does, or if registration is off."""
        return self._problem if self._settings.register_webhook else None

    async def wait_until_registered(self) -> None:
        """Return once the webhook is registered, or at once if registration is off."""
        if self._settings.register_webhook:
            await self._registered.wait()

    def wake(self) -> None:
        """Check the configuration at once."""
        self._loop.wake()

    async def run(self) -> None:
        """Keep the configuration right until cancelled. It stays afterwards, for the next replica or upstream's."""
        if self._settings.register_webhook:
            await self._loop.run()

    async def reconcile(self) -> None:
        """Compare the stored configuration with the desired one, and write the difference."""
        problem: str | None = "there is no CA certificate for the webhook configuration yet"
        if self._bundle():
            problem = await self._apply()
        self._report(problem)

    async def _apply(self) -> str | None:
        """Create or patch the configuration where it differs. Return what still is wrong."""
        message = ""
        for _ in range(_ATTEMPTS):
            try:
                self._plurals = await self._served_kinds()
                stored = await self._read()
            except (KubeError, UnreadableObject) as error:
                return f"{NAME} cannot be read: {error}"
            bundle = self._desired_bundle(stored)
            desired = build_configuration(self._settings, self._scope, bundle, self._plurals)
            if stored is not None and _is_as_desired(stored, desired):
                return None
            outcome = await self._writer.write(_action(desired, stored))
            if outcome.applied:
                _log.info("registered", name=NAME, created=stored is None)
                if stored is not None and not set(split_authorities(bundle)) <= set(_authorities(stored)):
                    _log.info("Successfully patched webhook with new client CA")
                return None
            message = outcome.message
            if outcome.result not in (Result.CONFLICT, Result.GONE):
                break
        return f"{NAME} cannot be written: {message}"

    async def _read(self) -> MutatingWebhookConfiguration | None:
        try:
            return await self._client.get(MUTATING_WEBHOOKS, NAME)
        except NotFound:
            return None

    async def _served_kinds(self) -> frozenset[str]:
        """Return which of Trellis' own kinds are served: one small answer, where full discovery has 100s of KB."""
        try:
            response = await self._client.send(requests.build_raw_get(_OWN_GROUP))
        except NotFound:
            return frozenset()
        served = responses.read_as(response, _ServedResources)
        return frozenset(resource.name for resource in served.resources) & {kind.plural for kind in OWN_KINDS}

    def _desired_bundle(self, stored: MutatingWebhookConfiguration | None) -> bytes:
        own_authorities = split_authorities(self._bundle())
        foreign = [authority for authority in _authorities(stored) if authority not in own_authorities]
        now = asyncio.get_running_loop().time()
        self._foreign_since = {authority: self._foreign_since.get(authority, now) for authority in foreign}
        return b"".join(
            (*own_authorities, *(authority for authority in foreign if now < self._foreign_since[authority] + HANDOVER))
        )

    def _report(self, problem: str | None) -> None:
        self._problem = problem
        self._metrics.set(REGISTERED, 0 if problem else 1)
        if problem is None:
            self._registered.set()
        if problem != self._reported:
            self._reported = problem
            if problem:
                _log.error("the webhook is not registered", why=problem)

    def _report_pass(self, report: PassReport) -> None:
        if report.error is not None:
            self._report(f"the check failed: {report.error}")


class _ServedResource(msgspec.Struct, frozen=True):
    name: str = ""


class _ServedResources(msgspec.Struct, frozen=True):
    resources: tuple[_ServedResource, ...] = ()


def _authorities(configuration: MutatingWebhookConfiguration | None) -> tuple[bytes, ...]:
    """Return the distinct authorities of a configuration, without bundles that are not base64."""
    authorities: dict[bytes, None] = {}
    for webhook in configuration.webhooks if configuration else ():
        try:
            bundle = b64decode(webhook.client_config.ca_bundle)
        except ValueError:
            continue
        authorities.update(dict.fromkeys(split_authorities(bundle)))
    return tuple(authorities)


def _is_as_desired(stored: MutatingWebhookConfiguration, desired: MutatingWebhookConfiguration) -> bool:
    """Whether the stored configuration is as desired. Users may add labels and annotations."""
    labels = stored.metadata.labels
    return stored.webhooks == desired.webhooks and all(labels.get(k) == v for k, v in desired.metadata.labels.items())


def _action(desired: MutatingWebhookConfiguration, stored: MutatingWebhookConfiguration | None) -> Action:
    document: dict[str, Any] = msgspec.to_builtins(desired)
    if stored is None:
        type_meta = {"apiVersion": MUTATING_WEBHOOKS.api_version, "kind": MUTATING_WEBHOOKS.kind}
        return CreateObject(Target(MUTATING_WEBHOOKS, NAME), type_meta | document)
    return PatchObject(build_target(MUTATING_WEBHOOKS, stored), merge_patch(document))
