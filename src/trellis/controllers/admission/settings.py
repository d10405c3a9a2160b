"""Settings of the admission controller: upstream's flags and defaults, and those that only Trellis has."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from trellis.base.durations import Duration
from trellis.base.errors import InvalidSelector
from trellis.base.names import check_dns_label, check_dns_subdomain, check_label_key, check_label_value
from trellis.base.quantities import Quantity
from trellis.base.selectors import LabelOperator, parse_selector
from trellis.runtime.settings.component import AccessSettings, ScopeSettings, check_interval, check_millicores
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings

TLS_1_2: Final = "tls1_2"
TLS_1_3: Final = "tls1_3"

_DAY: Final = Duration.from_seconds(86400)
_DIRECTORY: Final = "/etc/tls-certs"


class CertificateOrigin(StrEnum):
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
        CertificateOrigin,
        Setting(
            "Where the certificate comes from: `files`, or `secret` for one that is made and renewed by itself.",
            why="`auto`: files, unless none of their flags is set and there are none; then the Secret.",
        ),
    ] = CertificateOrigin.AUTO
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

    def conflicts(self) -> Iterator[SettingConflict]:
        """An authority has to outlive what it vouches for."""
        if self.certificate_lifetime.total_seconds() * 3 > self.authority_lifetime.total_seconds():
            yield SettingConflict("certificate-lifetime", "must be at most a third of --authority-lifetime")
        if problem := check_dns_subdomain(self.certificate_secret):
            yield SettingConflict("certificate-secret", f"is no name of a Secret: {problem}")

    @property
    def from_files(self) -> bool:
        """Whether files are meant; asks the disk where `auto` leaves it open."""
        if self.certificates is not CertificateOrigin.AUTO:
            return self.certificates is CertificateOrigin.FILES
        defaults = CertificateSettings()
        named = (self.tls_cert_file, self.tls_private_key) != (defaults.tls_cert_file, defaults.tls_private_key)
        return named or Path(self.tls_cert_file).exists() or Path(self.tls_private_key).exists()


# As the API server allows it.
_LONGEST_WAIT: Final = 30

# What a selector in an object can say; `>` and `<` are for nodes alone.
_WRITABLE: Final = frozenset(LabelOperator) - {LabelOperator.GREATER_THAN, LabelOperator.LESS_THAN}


def _check_selector(text: str) -> str | None:
    try:
        selector = parse_selector(text)
    except InvalidSelector as error:
        return error.rule
    unusable = [requirement.operator for requirement in selector.requirements if requirement.operator not in _WRITABLE]
    return f"must not compare with {unusable[0]}" if unusable else None


def read_labels(text: str) -> dict[str, str]:
    """`key:value,key:value`, as upstream writes labels in a flag, within quotes or without. No colon means no value."""
    pairs = (part.strip().partition(":") for part in text.strip('"').split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _check_labels(text: str) -> str | None:
    for key, value in read_labels(text).items():
        if problem := check_label_key(key) or check_label_value(value):
            return f"must be labels such as team:web,tier:front: {key}:{value}: {problem}"
    return None


class RegistrationSettings(Settings, frozen=True):
    """What stands in the webhook configuration."""

    namespace: Annotated[
        str,
        Setting(
            "Where this runs: namespace of its Service, its Secret and, unless set apart, its status Lease.",
            why="Upstream's, and `NAMESPACE` as upstream's manifests set it.",
            variable="NAMESPACE",
        ),
    ] = "kube-system"
    register_webhook: Annotated[
        bool,
        Setting("Write the webhook configuration, and keep it right.", why="On, as upstream; off if others write it."),
    ] = True
    webhook_service: Annotated[str, Setting("Service that the API server asks.", why="Upstream's name.")] = (
        "vpa-webhook"
    )
    register_by_url: Annotated[
        bool, Setting("Have the API server ask a URL instead of a Service.", why="Off: a Service is the usual way.")
    ] = False
    webhook_address: Annotated[
        str, Setting("With `--register-by-url`: where to ask, `https://` included.", why="Nobody could guess it.")
    ] = ""
    webhook_port: Annotated[
        str, Setting("With `--register-by-url`: the port, if the address does not have it.", why="As upstream.")
    ] = ""
    webhook_timeout_seconds: Annotated[
        int,
        Setting(
            "How long the API server waits for an answer.",
            why="Upstream's. A network that swallows packets delays every pod by it: its chart and our manifest say 5.",
            unit="seconds",
            minimum=1,
            maximum=_LONGEST_WAIT,
        ),
    ] = 30
    webhook_failure_policy_fail: Annotated[
        bool,
        Setting(
            "Refuse pods and objects while nobody answers.", why="Off: a pod that starts beats one of the right size."
        ),
    ] = False
    webhook_labels: Annotated[
        str,
        Setting("Labels of the webhook configuration: `key:value,key:value`.", why="None.", check=_check_labels),
    ] = ""
    webhook_object_selector: Annotated[
        str,
        Setting(
            "Ask about objects with these labels alone, such as `sized!=never`.",
            why="Empty: about all.",
            check=_check_selector,
        ),
    ] = ""
    webhook_namespace_selector: Annotated[
        str,
        Setting(
            "Ask about objects in namespaces with these labels alone, besides the flags that name namespaces.",
            why="Empty: all of them.",
            check=_check_selector,
        ),
    ] = ""
    webhook_reinvocation_policy: Annotated[
        str,
        Setting(
            "Whether to be asked again about a pod that later webhooks have changed.",
            why="As upstream; `IfNeeded` also sizes what those add, such as a sidecar.",
            choices=("Never", "IfNeeded"),
        ),
    ] = "Never"

    def conflicts(self) -> Iterator[SettingConflict]:
        """A URL must be one, and names must be names."""
        if self.register_webhook and self.register_by_url:
            if problem := _check_url(self.url):
                yield SettingConflict("webhook-address", f"with --register-by-url {problem}")
        elif problem := check_dns_label(self.webhook_service):
            yield SettingConflict("webhook-service", f"is no name of a Service: {problem}")
        if problem := check_dns_label(self.namespace):
            yield SettingConflict("namespace", f"is no name of a namespace: {problem}")

    @property
    def url(self) -> str:
        """What the API server asks with `--register-by-url`: address and port as they are, as upstream joins them."""
        return f"{self.webhook_address}:{self.webhook_port}" if self.webhook_port else self.webhook_address

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that a certificate has to be good for; the first is the one that the API server checks."""
        service = f"{self.webhook_service}.{self.namespace}"
        host = urlsplit(self.url).hostname if self.register_by_url else None
        return ((host,) if host else ()) + (f"{service}.svc", service, f"{service}.svc.cluster.local")


def _check_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        wrong = parts.scheme != "https" or not parts.hostname or parts.port == 0
    except ValueError:
        wrong = True
    if wrong:
        return "must be a URL such as https://10.0.0.1, with --webhook-port or a port of its own"
    if parts.username or parts.query or parts.fragment:
        return "must have neither a user, nor a query, nor a fragment: the API server takes none"
    return None


class StatusLeaseSettings(Settings, frozen=True):
    """The Lease by which updaters know that somebody answers."""

    status_lease_name: Annotated[
        str, Setting("Lease that says that this is there.", why="Upstream's: its updater waits for it.")
    ] = "vpa-admission-controller"
    status_lease_namespace: Annotated[str, Setting("Namespace of that Lease.", why="Empty: that of `--namespace`.")] = (
        ""
    )
    status_lease_update_interval: Annotated[
        Duration,
        Setting(
            "How often that Lease is renewed.",
            why="Upstream's updater takes us for gone after a minute without.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(10)

    def conflicts(self) -> Iterator[SettingConflict]:
        """A Lease has a name and stands somewhere."""
        if problem := check_dns_subdomain(self.status_lease_name):
            yield SettingConflict("status-lease-name", f"is no name of a Lease: {problem}")
        if self.status_lease_namespace and (problem := check_dns_label(self.status_lease_namespace)):
            yield SettingConflict("status-lease-namespace", f"is no name of a namespace: {problem}")


_MILLISECOND: Final = Duration(10**6)


class ReviewSettings(Settings, frozen=True):
    """How reviews are taken and answered."""

    port: Annotated[
        int,
        Setting("Port on which reviews are taken, over HTTPS.", why="Upstream's.", minimum=0, maximum=65535),
    ] = 8000
    max_allowed_cpu_boost: Annotated[
        Quantity | None,
        Setting(
            "Most CPU that a container is given for its start; a boost that would be more is cut.",
            why="Unset: no maximum.",
            minimum=Quantity.ZERO,
            check=check_millicores,
        ),
    ] = None
    require_fit: Annotated[
        bool,
        Setting(
            "Cut a boost to what some node could give, if nothing else ran there.",
            why="Off: a cluster whose nodes come and go may well get one that is large enough. A warning is given.",
        ),
    ] = False
    owner_lookup_deadline: Annotated[
        Duration,
        Setting(
            "How long a pod waits for its controller to be asked for, if that is not known yet.",
            why="A watch is behind by milliseconds. A pod that waited longer would wait for a server in trouble.",
            minimum=_MILLISECOND,
            maximum=Duration.from_seconds(5),
        ),
    ] = Duration(500 * 10**6)


class AdmissionSettings(Settings, frozen=True):
    """All settings of the admission controller."""

    reviews: ReviewSettings = ReviewSettings()
    certificates: CertificateSettings = CertificateSettings()
    registration: RegistrationSettings = RegistrationSettings()
    presence: StatusLeaseSettings = StatusLeaseSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    health: HealthSettings = HealthSettings(address=":8944")
    logs: LogSettings = LogSettings()
