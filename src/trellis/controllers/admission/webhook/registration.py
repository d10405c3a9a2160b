"""Keeps the webhook configuration as it should be, with the right certificate authority.

The configuration is changed in place: there is no moment without it, as there is when it is deleted and created again.
An authority in it that is not ours stays for some minutes, so that a replica whose file or Secret is older, or
upstream's webhook until its last pod is gone, is still trusted while certificates are being replaced.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

import msgspec

from trellis.api import registry
from trellis.api.kube.webhooks import MutatingWebhookConfiguration
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.controllers.admission.certificates.key_pairs import authorities_in
from trellis.controllers.admission.metrics import REGISTERED
from trellis.controllers.admission.settings import RegistrationSettings
from trellis.controllers.admission.webhook.configuration import NAME, OWN_KINDS, build_configuration
from trellis.kube.client import Client
from trellis.kube.resources import MUTATING_WEBHOOKS
from trellis.kube.transport import requests, responses
from trellis.kube.write.actions import Action, CreateObject, PatchObject, Target, target_of
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.passes import PassReport, Periodic
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

INTERVAL: Final = 10.0
# How long an authority of somebody else is left in the configuration: the kubelet brings a changed Secret to every node
# within two minutes.
HANDOVER: Final = 300.0
# Somebody else was faster; what they wrote is looked at once more.
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
        self._trouble: str | None = "nobody has looked yet"
        self._said: str | None = None
        self._registered = asyncio.Event()
        self._plurals: frozenset[str] = frozenset()
        self._foreign: dict[bytes, float] = {}
        self._loop = Periodic("registration", self.look, INTERVAL, on_pass=self._passed)
        metrics.set(REGISTERED, 0)

    def why_not_registered(self) -> str | None:
        """What keeps the API server from asking us; None if nothing does, or if that is the business of others."""
        return self._trouble if self._settings.register_webhook else None

    async def wait_until_registered(self) -> None:
        """Return once the API server has been told of us, or at once if that is the business of others."""
        if self._settings.register_webhook:
            await self._registered.wait()

    def wake(self) -> None:
        """Look again at once."""
        self._loop.wake()

    async def run(self) -> None:
        """Look until cancelled. What is registered stays so: the next replica, or upstream's, takes it over."""
        if self._settings.register_webhook:
            await self._loop.run()

    async def look(self) -> None:
        """Look once, and put right what is not."""
        trouble: str | None = "there is no certificate authority to register with"
        if self._bundle():
            trouble = await self._put_right()
        self._say(trouble)

    async def _put_right(self) -> str | None:
        """What is wrong in the end."""
        message = ""
        for _ in range(_ATTEMPTS):
            try:
                self._plurals = await self._served()
                seen = await self._read()
            except (KubeError, UnreadableObject) as error:
                return f"{NAME} cannot be read: {error}"
            bundle = self._wanted_bundle(seen)
            wanted = build_configuration(self._settings, self._scope, bundle, self._plurals)
            if seen is not None and _is_as_wanted(seen, wanted):
                return None
            outcome = await self._writer.write(_action(wanted, seen))
            if outcome.applied:
                _log.info("registered", name=NAME, created=seen is None)
                if seen is not None and not set(authorities_in(bundle)) <= set(_authorities(seen)):
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

    async def _served(self) -> frozenset[str]:
        """Which of our own kinds there are: one small answer, where full discovery has hundreds of kilobytes."""
        try:
            response = await self._client.send(requests.build_read(_OWN_GROUP))
        except NotFound:
            return frozenset()
        found = responses.read_as(response, _ServedResources)
        return frozenset(each.name for each in found.resources) & {kind.plural for kind in OWN_KINDS}

    def _wanted_bundle(self, seen: MutatingWebhookConfiguration | None) -> bytes:
        ours = authorities_in(self._bundle())
        there = [each for each in _authorities(seen) if each not in ours]
        now = asyncio.get_running_loop().time()
        self._foreign = {each: self._foreign.get(each, now) for each in there}
        return b"".join((*ours, *(each for each in there if now < self._foreign[each] + HANDOVER)))

    def _say(self, trouble: str | None) -> None:
        self._trouble = trouble
        self._metrics.set(REGISTERED, 0 if trouble else 1)
        if trouble is None:
            self._registered.set()
        if trouble != self._said:
            self._said = trouble
            if trouble:
                _log.error("not registered", why=trouble)

    def _passed(self, report: PassReport) -> None:
        if report.error is not None:
            self._say(f"looking failed: {report.error}")


class _ServedResource(msgspec.Struct, frozen=True):
    name: str = ""


class _ServedResources(msgspec.Struct, frozen=True):
    resources: tuple[_ServedResource, ...] = ()


def _authorities(seen: MutatingWebhookConfiguration | None) -> tuple[bytes, ...]:
    """Every authority in a configuration, each once. What is no base64 is nobody's."""
    found: dict[bytes, None] = {}
    for webhook in seen.webhooks if seen else ():
        try:
            bundle = b64decode(webhook.client_config.ca_bundle)
        except ValueError:
            continue
        found.update(dict.fromkeys(authorities_in(bundle)))
    return tuple(found)


def _is_as_wanted(seen: MutatingWebhookConfiguration, wanted: MutatingWebhookConfiguration) -> bool:
    """Further labels and annotations are anybody's."""
    labels = seen.metadata.labels
    return seen.webhooks == wanted.webhooks and all(labels.get(k) == v for k, v in wanted.metadata.labels.items())


def _action(wanted: MutatingWebhookConfiguration, seen: MutatingWebhookConfiguration | None) -> Action:
    document: dict[str, Any] = msgspec.to_builtins(wanted)
    if seen is None:
        about = {"apiVersion": MUTATING_WEBHOOKS.api_version, "kind": MUTATING_WEBHOOKS.kind}
        return CreateObject(Target(MUTATING_WEBHOOKS, NAME), about | document)
    return PatchObject(target_of(MUTATING_WEBHOOKS, seen), merge_patch(document))
