"""Under which name does the API server ask us, and about what? Upstream's flags, and a few selectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final
from urllib.parse import urlsplit

from trellis.base.durations import Duration
from trellis.base.errors import InvalidSelector
from trellis.base.label_requirements import Operator
from trellis.base.names import why_not_label, why_not_label_key, why_not_label_value, why_not_subdomain
from trellis.base.selectors import parse_selector
from trellis.runtime.component_settings import why_no_time
from trellis.runtime.settings import Conflict, Setting, Settings

# As the API server allows it.
_LONGEST_WAIT: Final = 30

# What a selector in an object can say; `>` and `<` are for nodes alone.
_WRITABLE: Final = frozenset(Operator) - {Operator.GREATER_THAN, Operator.LESS_THAN}


def _why_not_selector(text: str) -> str | None:
    try:
        found = parse_selector(text)
    except InvalidSelector as error:
        return error.rule
    unusable = [each.operator for each in found.requirements if each.operator not in _WRITABLE]
    return f"must not compare with {unusable[0]}" if unusable else None


def read_labels(text: str) -> dict[str, str]:
    """`key:value,key:value`, as upstream writes labels in a flag, within quotes or without. No colon means no value."""
    pairs = (part.strip().partition(":") for part in text.strip('"').split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _why_not_labels(text: str) -> str | None:
    for key, value in read_labels(text).items():
        if why := why_not_label_key(key) or why_not_label_value(value):
            return f"must be labels such as team:web,tier:front: {key}:{value}: {why}"
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
        Setting("Labels of the webhook configuration: `key:value,key:value`.", why="None.", check=_why_not_labels),
    ] = ""
    webhook_object_selector: Annotated[
        str,
        Setting(
            "Ask about objects with these labels alone, such as `sized!=never`.",
            why="Empty: about all.",
            check=_why_not_selector,
        ),
    ] = ""
    webhook_namespace_selector: Annotated[
        str,
        Setting(
            "Ask about objects in namespaces with these labels alone, besides the flags that name namespaces.",
            why="Empty: all of them.",
            check=_why_not_selector,
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

    def conflicts(self) -> Iterator[Conflict]:
        """A URL must be one, and names must be names."""
        if self.register_webhook and self.register_by_url:
            if why := _why_not_url(self.url):
                yield Conflict("webhook-address", f"with --register-by-url {why}")
        elif why := why_not_label(self.webhook_service):
            yield Conflict("webhook-service", f"is no name of a Service: {why}")
        if why := why_not_label(self.namespace):
            yield Conflict("namespace", f"is no name of a namespace: {why}")

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


def _why_not_url(url: str) -> str | None:
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


class PresenceSettings(Settings, frozen=True):
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
            check=why_no_time,
        ),
    ] = Duration.from_seconds(10)

    def conflicts(self) -> Iterator[Conflict]:
        """A Lease has a name and stands somewhere."""
        if why := why_not_subdomain(self.status_lease_name):
            yield Conflict("status-lease-name", f"is no name of a Lease: {why}")
        if self.status_lease_namespace and (why := why_not_label(self.status_lease_namespace)):
            yield Conflict("status-lease-namespace", f"is no name of a namespace: {why}")
