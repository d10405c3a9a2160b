"""Shares one authority between replicas through a Secret, which the first replica writes and the others adopt.

Every write names the version that was read. Of two replicas that renew at the same moment one is therefore refused,
reads again, and adopts what the other has made. A Secret that was deleted is written again from memory, so that the API
server goes on trusting the same authority. A Secret that Trellis did not make is never written.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.controllers.admission.certificates.authority import (
    CertificateLifetimes,
    SharedCertificates,
    renew_certificates,
)
from trellis.controllers.admission.certificates.key_pairs import KeyPair, ServingCertificate, authorities_in
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.write.actions import Action, CreateObject, PatchObject, Target
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.logs import Logger

# The names that everybody who reads such Secrets knows.
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "trellis"}

# Somebody else was faster: what they wrote is there to be read. Nobody is faster three times.
_ATTEMPTS: Final = 3

# How often it is asked whether something is due. The handshakes for it take 9 ms, for which reviews have to wait.
_RENEWAL_CHECK_SECONDS: Final = 300.0

_log: Final = Logger("trellis.admission")


class Secret(KubeObject, frozen=True):
    """A Secret. Its data is base64, as on the wire."""

    data: Labels = NOTHING

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"


SECRETS: Final = Resource("", "v1", "secrets", "Secret", True, Secret)


class CertificateSecret:
    """One Secret with an authority and what it signed, for these hosts. `now` is in seconds since 1970."""

    interval: Final = 10.0

    def __init__(
        self,
        client: Client,
        writer: Writer,
        *,
        name: str,
        namespace: str,
        hosts: tuple[str, ...],
        lifetimes: CertificateLifetimes,
        now: Callable[[], float],
    ) -> None:
        self.trouble = ""
        self._client = client
        self._writer = writer
        self._target = Target(SECRETS, name, namespace)
        self._hosts = hosts
        self._lifetimes = lifetimes
        self._now = now
        self._kept: SharedCertificates | None = None
        self._thought = 0.0

    def __str__(self) -> str:
        return str(self._target)

    async def look(self, *, shown: bool) -> ServingCertificate | None:
        """Adopt what is there, renew what is due, and say what to show if that is new."""
        before = self._kept if shown else None
        for _ in range(_ATTEMPTS):
            if await self._agree():
                break
        if self._kept is None or self._kept == before:
            return None
        return ServingCertificate(self._kept.serving, self._kept.bundle)

    async def _agree(self) -> bool:
        """Whether there is nothing more to do now."""
        try:
            secret = await self._read()
        except (KubeError, UnreadableObject) as error:
            self.trouble = f"{self._target} cannot be read: {error}"
            return True
        if secret is not None and not _is_ours(secret):
            self.trouble = f"{self._target} holds something that Trellis did not make; name another with a flag"
            return True
        stored = from_secret_data(secret.data) if secret else None
        now = self._now()
        if stored is not None and stored == self._kept and 0 <= now - self._thought < _RENEWAL_CHECK_SECONDS:
            self.trouble = ""
            return True
        kept, renewed = renew_certificates(stored or self._kept, self._hosts, now, self._lifetimes)
        if stored != kept and not await self._write(kept, secret, renewed):
            return False
        self._kept = kept
        self._thought = now
        self.trouble = ""
        return True

    async def _read(self) -> Secret | None:
        try:
            return await self._client.get(SECRETS, self._target.name, self._target.namespace)
        except NotFound:
            return None

    async def _write(self, kept: SharedCertificates, secret: Secret | None, renewed: tuple[str, ...]) -> bool:
        """Whether `kept` is what counts from now on."""
        outcome = await self._writer.write(self._action(kept, secret))
        if outcome.result in (Result.APPLIED, Result.SKIPPED):
            if renewed or outcome.applied:
                _log.info("wrote certificates", where=self._target, made=",".join(renewed) or "nothing new")
            return True
        self.trouble = f"{self._target} cannot be written: {outcome.message}"
        return False

    def _action(self, kept: SharedCertificates, secret: Secret | None) -> Action:
        data = {name: b64encode(value).decode() for name, value in to_secret_data(kept).items()}
        if secret is None:
            metadata = {"name": self._target.name, "namespace": self._target.namespace, "labels": MANAGED_BY}
            document: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
            return CreateObject(self._target, document | {"metadata": metadata, "data": data})
        seen = secret.metadata
        target = msgspec.structs.replace(self._target, uid=seen.uid, resource_version=seen.resource_version)
        return PatchObject(target, merge_patch({"metadata": {"labels": MANAGED_BY}, "data": data}))


def to_secret_data(kept: SharedCertificates) -> dict[str, bytes]:
    """What is kept, by the names in a Secret."""
    return {
        CERTIFICATE: kept.serving.certificate,
        KEY: kept.serving.key,
        BUNDLE: kept.bundle,
        AUTHORITY_KEY: kept.authority_key,
    }


def from_secret_data(data: Mapping[str, str]) -> SharedCertificates | None:
    """What a Secret keeps; None if that is not all of it, or no base64."""
    try:
        found = {name: b64decode(value, validate=True) for name, value in data.items()}
    except ValueError:
        return None
    authorities = authorities_in(found.get(BUNDLE, b""))
    if not authorities or not all(found.get(name) for name in (CERTIFICATE, KEY, AUTHORITY_KEY)):
        return None
    return SharedCertificates(authorities, found[AUTHORITY_KEY], KeyPair(found[CERTIFICATE], found[KEY]))


def _is_ours(secret: Secret) -> bool:
    """It says so, or it is empty: somebody has made it so that we need not have the right to."""
    marked = all(secret.metadata.labels.get(name) == value for name, value in MANAGED_BY.items())
    return marked or not any(secret.data.values())
