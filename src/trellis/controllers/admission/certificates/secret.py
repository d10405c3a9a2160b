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
from trellis.controllers.admission.certificates.key_pairs import KeyPair, ServingCertificate, split_authorities
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.write.actions import Action, CreateObject, PatchObject, Target
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.logs import Logger

# The usual keys of TLS Secrets.
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "trellis"}

# Reads, after a conflict, of the Secret that another replica wrote.
_ATTEMPTS: Final = 3

# How often renewal is checked. Its handshakes take 9 ms, in which no review is answered.
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
        self.problem = ""
        self._client = client
        self._writer = writer
        self._target = Target(SECRETS, name, namespace)
        self._hosts = hosts
        self._lifetimes = lifetimes
        self._now = now
        self._shared: SharedCertificates | None = None
        self._checked_at = 0.0

    def __str__(self) -> str:
        return str(self._target)

    def may_have_changed(self, *, is_serving: bool) -> bool:  # noqa: ARG002 - only the API server knows
        """Another replica or a person may have changed it at any time."""
        return True

    async def read_if_changed(self, *, is_serving: bool) -> ServingCertificate | None:
        """Read the Secret, renew what is due, and return the certificate if it is new."""
        before = self._shared if is_serving else None
        for _ in range(_ATTEMPTS):
            if await self._synchronize():
                break
        if self._shared is None or self._shared == before:
            return None
        return ServingCertificate(self._shared.serving, self._shared.bundle)

    async def _synchronize(self) -> bool:
        """Read, renew and write once; False after a write that failed, to try again."""
        try:
            secret = await self._read()
        except (KubeError, UnreadableObject) as error:
            self.problem = f"{self._target} cannot be read: {error}"
            return True
        if secret is not None and not _is_managed(secret):
            self.problem = f"{self._target} was not created by Trellis; choose another name with --certificate-secret"
            return True
        stored = from_secret_data(secret.data) if secret else None
        now = self._now()
        if stored is not None and stored == self._shared and 0 <= now - self._checked_at < _RENEWAL_CHECK_SECONDS:
            self.problem = ""
            return True
        shared, renewed = renew_certificates(stored or self._shared, self._hosts, now, self._lifetimes)
        if stored != shared and not await self._write(shared, secret, renewed):
            return False
        self._shared = shared
        self._checked_at = now
        self.problem = ""
        return True

    async def _read(self) -> Secret | None:
        try:
            return await self._client.get(SECRETS, self._target.name, self._target.namespace)
        except NotFound:
            return None

    async def _write(self, shared: SharedCertificates, secret: Secret | None, renewed: tuple[str, ...]) -> bool:
        """Write the Secret; whether these certificates may be used from now on."""
        outcome = await self._writer.write(self._action(shared, secret))
        if outcome.result in (Result.APPLIED, Result.SKIPPED):
            if renewed or outcome.applied:
                _log.info("wrote certificates", where=self._target, made=",".join(renewed) or "unchanged")
            return True
        self.problem = f"{self._target} cannot be written: {outcome.message}"
        return False

    def _action(self, shared: SharedCertificates, secret: Secret | None) -> Action:
        data = {name: b64encode(value).decode() for name, value in to_secret_data(shared).items()}
        if secret is None:
            metadata = {"name": self._target.name, "namespace": self._target.namespace, "labels": MANAGED_BY}
            document: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
            return CreateObject(self._target, document | {"metadata": metadata, "data": data})
        existing = secret.metadata
        target = msgspec.structs.replace(self._target, uid=existing.uid, resource_version=existing.resource_version)
        return PatchObject(target, merge_patch({"metadata": {"labels": MANAGED_BY}, "data": data}))


def to_secret_data(shared: SharedCertificates) -> dict[str, bytes]:
    """The data of the Secret with these certificates."""
    return {
        CERTIFICATE: shared.serving.certificate,
        KEY: shared.serving.key,
        BUNDLE: shared.bundle,
        AUTHORITY_KEY: shared.authority_key,
    }


def from_secret_data(data: Mapping[str, str]) -> SharedCertificates | None:
    """The certificates in the data of a Secret; None if some are missing, or not base64."""
    try:
        decoded = {name: b64decode(value, validate=True) for name, value in data.items()}
    except ValueError:
        return None
    authorities = split_authorities(decoded.get(BUNDLE, b""))
    if not authorities or not all(decoded.get(name) for name in (CERTIFICATE, KEY, AUTHORITY_KEY)):
        return None
    return SharedCertificates(authorities, decoded[AUTHORITY_KEY], KeyPair(decoded[CERTIFICATE], decoded[KEY]))


def _is_managed(secret: Secret) -> bool:
    """Whether a Secret has our label, or is empty: one created in advance saves the right to create Secrets."""
    marked = all(secret.metadata.labels.get(name) == value for name, value in MANAGED_BY.items())
    return marked or not any(secret.data.values())
