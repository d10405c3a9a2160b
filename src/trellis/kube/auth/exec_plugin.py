"""Credentials from an exec plug-in of a kubeconfig, in `client.authentication.k8s.io/v1` and `v1beta1`.

The plug-in runs when the first request needs it, when its credentials have expired, and once after a 401. However
many requests wait for it, it runs once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.slices import Slice, Time
from trellis.base.errors import Unauthorized, UnreadableObject, quote_name
from trellis.kube.auth.connection import ClientCertificate, PluginCall
from trellis.kube.auth.credentials import Identity

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

# The timeout of a non-interactive plug-in: by then it waits for input.
TIMEOUT_SECONDS: Final = 60.0


class _ExecCredentialStatus(Slice, frozen=True):
    expiration_timestamp: Time | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(Slice, frozen=True):
    api_version: str = ""
    kind: str = ""
    status: _ExecCredentialStatus | None = None


class ExecPlugin:
    """Runs the program and caches its credentials until they expire.

    `now` is the wall clock, which the program's expiry is written in.
    """

    def __init__(
        self, call: PluginCall, now: Callable[[], datetime], *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._call = call
        self._now = now
        self._timeout = timeout_seconds
        self._identity_in_use: Identity | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()

    async def identity(self) -> Identity:
        """The cached credentials, or new ones from the program."""
        async with self._running:
            if self._identity_in_use is None or (self._expires is not None and self._now() >= self._expires):
                status = _read(await self._run(), self._call)
                self._identity_in_use, self._expires = _identity(status, self._call), status.expiration_timestamp
            return self._identity_in_use

    async def renew(self, refused: Identity) -> bool:
        """Drop the refused credentials; another request may have done so already."""
        async with self._running:
            if self._identity_in_use is refused:
                self._identity_in_use = None
        return True

    async def _run(self) -> bytes:
        call = self._call
        person = call.interactive != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if call.interactive == "Always" and not person:
            raise _build_failure(call, "it needs a terminal (interactiveMode: Always), and there is none")
        inherit, closed, pipe = None, asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                call.command,
                *call.arguments,
                env={**os.environ, **dict(call.environment), "KUBERNETES_EXEC_INFO": _exec_info(call, person)},
                stdin=inherit if person else closed,
                stdout=pipe,
                # Prompts must be visible; otherwise stderr is captured to explain a failure.
                stderr=inherit if person else pipe,
            )
        except OSError as error:
            raise _build_failure(call, f"cannot be run: {error.strerror}") from error
        output, complaint = await _wait(process, call, None if person else self._timeout)
        if process.returncode:
            stderr_text = " ".join((complaint or b"").decode("utf-8", "replace").split())
            raise _build_failure(
                call, f"ended with {process.returncode}" + (f": {stderr_text[:300]}" if stderr_text else "")
            )
        return output


async def _wait(process: asyncio.subprocess.Process, call: PluginCall, seconds: float | None) -> tuple[bytes, bytes]:
    try:
        async with asyncio.timeout(seconds):
            return await process.communicate()
    except TimeoutError as error:
        raise _build_failure(call, f"has not ended after {seconds:g} s") from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _exec_info(call: PluginCall, person: bool) -> str:
    spec: dict[str, object] = {"interactive": person}
    if call.cluster is not None:
        spec["cluster"] = call.cluster
    document = {"apiVersion": call.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(document).decode()


def _read(output: bytes, call: PluginCall) -> _ExecCredentialStatus:
    # What was printed may be half a secret, so it is not quoted.
    try:
        credential = decode_object(output, _ExecCredential)
    except UnreadableObject as error:
        raise _build_failure(call, "did not print an ExecCredential in JSON") from error
    if credential.kind != "ExecCredential" or credential.api_version != call.api_version:
        actual = f"{credential.kind or 'nothing'} of {credential.api_version or 'no version'}"
        raise _build_failure(call, f"printed {actual}, not an ExecCredential of {call.api_version}")
    if credential.status is None:
        raise _build_failure(call, "printed an ExecCredential without a status")
    return credential.status


def _identity(status: _ExecCredentialStatus, call: PluginCall) -> Identity:
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise _build_failure(call, "printed a certificate without its key, or the key alone")
    if not status.token and not status.client_certificate_data:
        raise _build_failure(call, "printed neither a token nor a certificate")
    pair = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
    return Identity(status.token, pair if pair.key else None)


def _build_failure(call: PluginCall, problem: str) -> Unauthorized:
    hint = f"; {' '.join(call.install_hint.split())}" if call.install_hint else ""
    return Unauthorized(0, "NoCredentials", f"the credential plug-in {quote_name(call.command)} {problem}{hint}")
