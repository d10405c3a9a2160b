"""Settings of the admission controller: upstream's flags and defaults, and those that only Trellis has."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Final
from urllib.parse import urlsplit

from trellis.base.durations import Duration
from trellis.base.errors import InvalidSelector
from trellis.base.names import check_dns_label, check_dns_subdomain, check_label_key, check_label_value
from trellis.base.quantities import Quantity
from trellis.base.selectors import LabelOperator, parse_selector
from trellis.runtime.settings.component import AccessSettings, ScopeSettings, check_interval, check_millicores
from trellis.runtime.settings.declarations import Reload, Setting, SettingConflict, Settings
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
    """Certificate of the webhook, and TLS."""

    title: ClassVar[str] = "Certificate and TLS"

    client_ca_file: Annotated[
        str,
        Setting("Path of the CA certificate, PEM-encoded.", why="Upstream's path."),
    ] = f"{_DIRECTORY}/caCert.pem"
    tls_cert_file: Annotated[str, Setting("Path of the server certificate, PEM-encoded.", why="Upstream's path.")] = (
        f"{_DIRECTORY}/serverCert.pem"
    )
    tls_private_key: Annotated[
        str, Setting("Path of the server certificate's private key, PEM-encoded.", why="Upstream's path.")
    ] = f"{_DIRECTORY}/serverKey.pem"
    reload_cert: Annotated[
        bool,
        Setting("Reload the certificate files when they change.", why="On: upstream's manifests set it."),
    ] = True
    certificates: Annotated[
        CertificateOrigin,
        Setting(
            "Source of the certificate: `files`, `secret` for a generated one kept in a Secret, or `auto`.",
            why="`auto` takes the files if their flags are set or the files exist, else the Secret.",
        ),
    ] = CertificateOrigin.AUTO
    certificate_secret: Annotated[
        str,
        Setting(
            "Secret of the generated certificate, its CA and their keys.",
            why="Not upstream's `vpa-tls-certs`, which stays as it is for a return to upstream.",
        ),
    ] = "trellis-admission-certificates"  # noqa: S105 - a name
    certificate_lifetime: Annotated[
        Duration,
        Setting(
            "Validity of the generated certificate, which is renewed after two thirds of it.",
            why="A month remains to notice a failed renewal.",
            minimum=_DAY,
        ),
    ] = Duration.from_seconds(90 * 86400)
    authority_lifetime: Annotated[
        Duration,
        Setting(
            "Validity of the generated CA; after two thirds of it a second CA is added.",
            why="Only the API server trusts it, and the webhook configuration has the next CA years in advance.",
            minimum=_DAY,
        ),
    ] = Duration.from_seconds(3650 * 86400)
    min_tls_version: Annotated[
        str, Setting("Minimum TLS version.", why="Upstream's default.", choices=(TLS_1_2, TLS_1_3))
    ] = TLS_1_2
    tls_ciphers: Annotated[
        str,
        Setting(
            "Cipher suites for TLS 1.2 by their Go names, separated by commas or colons; unknown ones are ignored.",
            why="Empty: OpenSSL's defaults.",
        ),
    ] = ""

    def conflicts(self) -> Iterator[SettingConflict]:
        """The CA outlives its certificates."""
        if self.certificate_lifetime.total_seconds() * 3 > self.authority_lifetime.total_seconds():
            yield SettingConflict("certificate-lifetime", "must be at most a third of --authority-lifetime")
        if problem := check_dns_subdomain(self.certificate_secret):
            yield SettingConflict("certificate-secret", f"is not a valid name of a Secret: {problem}")

    @property
    def from_files(self) -> bool:
        """Whether the certificate comes from files; `auto` checks whether they exist."""
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
    """The webhook configuration, by which the API server calls the webhook."""

    title: ClassVar[str] = "Webhook configuration"

    namespace: Annotated[
        str,
        Setting(
            "Namespace of the webhook's Service, its Secret and, by default, its status Lease.",
            why="Upstream's default and variable.",
            variable="NAMESPACE",
        ),
    ] = "kube-system"
    register_webhook: Annotated[
        bool,
        Setting("Create the webhook configuration and keep it up to date.", why="On, as upstream."),
    ] = True
    webhook_service: Annotated[str, Setting("Name of the webhook's Service.", why="Upstream's name.")] = "vpa-webhook"
    register_by_url: Annotated[
        bool, Setting("Register the webhook by URL instead of by Service.", why="Off, as upstream.")
    ] = False
    webhook_address: Annotated[
        str, Setting("Address of the webhook with `--register-by-url`, including `https://`.", why="No default.")
    ] = ""
    webhook_port: Annotated[
        str,
        Setting("Port of the webhook with `--register-by-url`, unless the address contains it.", why="As upstream."),
    ] = ""
    webhook_timeout_seconds: Annotated[
        int,
        Setting(
            "How long the API server waits for the webhook.",
            why="Upstream's default. A network that drops packets delays every new pod by it; upstream's "
            "chart and our manifest set 5.",
            unit="seconds",
            minimum=1,
            maximum=_LONGEST_WAIT,
        ),
    ] = 30
    webhook_failure_policy_fail: Annotated[
        bool,
        Setting(
            "Set the webhook's failurePolicy to `Fail`: the API server refuses pods and objects while "
            "the webhook does not answer.",
            why="Off: a pod of the wrong size is better than no pod.",
        ),
    ] = False
    webhook_labels: Annotated[
        str,
        Setting(
            "Labels of the webhook configuration, as `key:value`, separated by commas.",
            why="None.",
            check=_check_labels,
        ),
    ] = ""
    webhook_object_selector: Annotated[
        str,
        Setting(
            "Label selector of the objects that the webhook is called for, such as `sized!=never`.",
            why="Empty: all objects.",
            check=_check_selector,
        ),
    ] = ""
    webhook_namespace_selector: Annotated[
        str,
        Setting(
            "Label selector of the namespaces that the webhook is called for, in addition to the flags "
            "that name namespaces.",
            why="Empty: all namespaces.",
            check=_check_selector,
        ),
    ] = ""
    webhook_reinvocation_policy: Annotated[
        str,
        Setting(
            "Whether the API server calls the webhook again for a pod that later webhooks changed.",
            why="`Never`, as upstream; `IfNeeded` also sizes containers that later webhooks add, such as sidecars.",
            choices=("Never", "IfNeeded"),
        ),
    ] = "Never"

    def conflicts(self) -> Iterator[SettingConflict]:
        """URL and names are valid."""
        if self.register_webhook and self.register_by_url:
            if problem := _check_url(self.url):
                yield SettingConflict("webhook-address", f"with --register-by-url {problem}")
        elif problem := check_dns_label(self.webhook_service):
            yield SettingConflict("webhook-service", f"is not a valid name of a Service: {problem}")
        if problem := check_dns_label(self.namespace):
            yield SettingConflict("namespace", f"is not a valid namespace name: {problem}")

    @property
    def url(self) -> str:
        """The URL of the webhook with `--register-by-url`: address and port, joined as upstream joins them."""
        return f"{self.webhook_address}:{self.webhook_port}" if self.webhook_port else self.webhook_address

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that the certificate must contain; the API server checks the first."""
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
        return "must have no user, query or fragment: the API server does not support them"
    return None


class StatusLeaseSettings(Settings, frozen=True):
    """Lease that shows updaters that the admission controller runs."""

    title: ClassVar[str] = "Status Lease"

    status_lease_name: Annotated[
        str, Setting("Name of the status Lease.", why="Upstream's name, which its updater expects.")
    ] = "vpa-admission-controller"
    status_lease_namespace: Annotated[
        str, Setting("Namespace of the status Lease.", why="Empty: the namespace of `--namespace`.")
    ] = ""
    status_lease_update_interval: Annotated[
        Duration,
        Setting(
            "Time between two renewals of the status Lease.",
            why="Updaters stop evicting after a minute without renewal.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(10)

    def conflicts(self) -> Iterator[SettingConflict]:
        """Name and namespace of the Lease are valid."""
        if problem := check_dns_subdomain(self.status_lease_name):
            yield SettingConflict("status-lease-name", f"is not a valid name of a Lease: {problem}")
        if self.status_lease_namespace and (problem := check_dns_label(self.status_lease_namespace)):
            yield SettingConflict("status-lease-namespace", f"is not a valid namespace name: {problem}")


_MILLISECOND: Final = Duration(10**6)


class ReviewSettings(Settings, frozen=True):
    """How the webhook answers AdmissionReviews."""

    title: ClassVar[str] = "Webhook"

    port: Annotated[
        int,
        Setting("Port of the webhook (HTTPS).", why="Upstream's default.", minimum=0, maximum=65535),
    ] = 8000
    max_allowed_cpu_boost: Annotated[
        Quantity | None,
        Setting(
            "Maximum CPU that a startup boost may give to a container; larger boosts are capped.",
            why="Unset: no maximum.",
            minimum=Quantity.ZERO,
            check=check_millicores,
        ),
    ] = None
    require_fit: Annotated[
        bool,
        Setting(
            "Cap a startup boost so that the pod fits on some node of the cluster, if the node were empty.",
            why="Off, because a larger node may be added: a boost that fits on no node gets a warning.",
        ),
    ] = False
    owner_lookup_deadline: Annotated[
        Duration,
        Setting(
            "How long a new pod may wait while its owner is looked up, if the cache does not have it yet.",
            why="A watch lags by milliseconds; a longer wait would be for an API server in trouble.",
            minimum=_MILLISECOND,
            maximum=Duration.from_seconds(5),
        ),
    ] = Duration(500 * 10**6)


class AdmissionSettings(Settings, frozen=True):
    """All settings of the admission controller."""

    # While the webhook restarts, the API server would wait for it, or create pods without it.
    reload: ClassVar[Reload | None] = Reload.RESTART_OF_PROCESS
    most_used: ClassVar[tuple[str, ...]] = (
        "port",
        "namespace",
        "certificates",
        "register-webhook",
        "webhook-service",
        "webhook-timeout-seconds",
        "webhook-failure-policy-fail",
        "webhook-namespace-selector",
        "max-allowed-cpu-boost",
        "feature-gates",
    )

    reviews: ReviewSettings = ReviewSettings()
    certificates: CertificateSettings = CertificateSettings()
    registration: RegistrationSettings = RegistrationSettings()
    presence: StatusLeaseSettings = StatusLeaseSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    health: HealthSettings = HealthSettings(address=":8944")
    logs: LogSettings = LogSettings()
