"""TLS contexts: the authorities that a connection trusts, and the certificate it presents."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from trellis.base.errors import BadKubeconfig
from trellis.kube.auth.connection import ClientCertificate, Connection


def make_tls_context(connection: Connection, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """A context for one server and one identity."""
    try:
        authority = connection.authority.decode("ascii") if connection.authority else None
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise BadKubeconfig(connection.source, f"the certificate authority is not PEM: {error}") from error
    # Python 3.13 turns this on. Cluster authorities made by older tools lack an identifier that strict RFC 5280 asks
    # for; Go does not ask, and a cluster every other client accepts should not be refused by ours.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _load_client_certificate(context, certificate, connection.source)
    return context


def _load_client_certificate(context: ssl.SSLContext, certificate: ClientCertificate, source: str) -> None:
    try:
        load_certificate_chain(context, certificate.certificate, certificate.key)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise BadKubeconfig(source, f"the client certificate and its key cannot be used: {error}") from error


def load_certificate_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Present this certificate. OpenSSL reads it and its key from files only; raises OpenSSL's errors."""
    with _unnamed_file(certificate) as chain, _unnamed_file(key) as private:
        # A key with a passphrase would prompt at the terminal; an empty passphrase fails instead.
        context.load_cert_chain(chain, private, password="")


@contextmanager
def _unnamed_file(content: bytes) -> Iterator[str]:
    """A file without a name in any directory, deleted with its descriptor, so that no key remains on disk.

    On Windows, where every file has a name, it is a file in a directory of its own.
    """
    if not Path("/dev/fd").exists():
        with tempfile.TemporaryDirectory() as directory:
            named = Path(directory, "content")
            named.write_bytes(content)
            yield str(named)
        return
    with _open_unnamed() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"


def _open_unnamed() -> IO[bytes]:
    """In memory where the system can: in a container all directories may be read-only."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("certificate"), "w+b")
    return tempfile.TemporaryFile()
