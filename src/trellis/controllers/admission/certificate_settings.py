"""What of the webhook's certificate can be set? Upstream's flags, and those for one that it makes itself."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.base.names import why_not_subdomain
from trellis.runtime.settings import Conflict, Setting, Settings

TLS_1_2: Final = "tls1_2"
TLS_1_3: Final = "tls1_3"

_DAY: Final = Duration.from_seconds(86400)
_DIRECTORY: Final = "/etc/tls-certs"


class Origin(StrEnum):
    """Where the certificate comes from."""

    AUTO = "auto"
    FILES = "files"
    SECRET = "secret"  # noqa: S105 - a word, not a password


class CertificateSettings(Settings, frozen=True):
    """The certificate that the API server is shown, and how it is shown."""

    client_ca_file: Annotated[
        str,
        Setting("File with the authorities that vouch for the certificate, as PEM.", why="Where upstream has it."),
    ] = f"{_DIRECTORY}/caCert.pem"
    tls_cert_file: Annotated[str, Setting("File with the certificate, as PEM.", why="Where upstream has it.")] = (
        f"{_DIRECTORY}/serverCert.pem"
    )
    tls_private_key: Annotated[
        str, Setting("File with the key of the certificate, as PEM.", why="Where upstream has it.")
    ] = f"{_DIRECTORY}/serverKey.pem"
    reload_cert: Annotated[
        bool,
        Setting("Read the files again when they change.", why="Upstream's manifests set it, and so should everybody."),
    ] = True
    certificates: Annotated[
        Origin,
        Setting(
            "Where the certificate comes from: `files`, or `secret` for one that is made and renewed by itself.",
            why="`auto`: files, unless none of their flags is set and there are none; then the Secret.",
        ),
    ] = Origin.AUTO
    certificate_secret: Annotated[
        str,
        Setting(
            "Secret for the certificate that is made, its authority and their keys.",
            why="Not upstream's `vpa-tls-certs`: that one stays as it is for the way back.",
        ),
    ] = "trellis-admission-certificates"  # noqa: S105 - a name
    certificate_lifetime: Annotated[
        Duration,
        Setting(
            "For how long a certificate that is made is valid; at two thirds it is renewed.",
            why="A month is left to notice that it is not.",
            minimum=_DAY,
        ),
    ] = Duration.from_seconds(90 * 86400)
    authority_lifetime: Annotated[
        Duration,
        Setting(
            "For how long an authority that is made is valid; at two thirds a second one is made beside it.",
            why="Nobody but the API server trusts it, and that is told of the next one years before.",
            minimum=_DAY,
        ),
    ] = Duration.from_seconds(3650 * 86400)
    min_tls_version: Annotated[
        str, Setting("Oldest version of TLS to speak.", why="Upstream's.", choices=(TLS_1_2, TLS_1_3))
    ] = TLS_1_2
    tls_ciphers: Annotated[
        str,
        Setting(
            "Ciphers for TLS 1.2 by Go's names, with commas or colons between them; unknown ones are left out.",
            why="Empty: what OpenSSL thinks good.",
        ),
    ] = ""

    def conflicts(self) -> Iterator[Conflict]:
        """An authority has to outlive what it vouches for."""
        if self.certificate_lifetime.total_seconds() * 3 > self.authority_lifetime.total_seconds():
            yield Conflict("certificate-lifetime", "must be at most a third of --authority-lifetime")
        if why := why_not_subdomain(self.certificate_secret):
            yield Conflict("certificate-secret", f"is no name of a Secret: {why}")

    @property
    def from_files(self) -> bool:
        """Whether files are meant; asks the disk where `auto` leaves it open."""
        if self.certificates is not Origin.AUTO:
            return self.certificates is Origin.FILES
        defaults = CertificateSettings()
        named = (self.tls_cert_file, self.tls_private_key) != (defaults.tls_cert_file, defaults.tls_private_key)
        return named or Path(self.tls_cert_file).exists() or Path(self.tls_private_key).exists()
