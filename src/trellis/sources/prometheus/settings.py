"""Settings of Prometheus: upstream's flags with their defaults, and limits of single queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final
from urllib.parse import urlsplit

from trellis.base.durations import Duration
from trellis.base.errors import InvalidInput
from trellis.base.quantities import Quantity
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings
from trellis.sources.prometheus.durations import check_span, parse_prometheus_duration

_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[=:]\s*([\x20-\x7e\t]*)")


def _check_address(value: str) -> str | None:
    try:
        address = urlsplit(value)
        _ = address.port
    except ValueError as error:
        return f"must be a URL such as http://prometheus.monitoring.svc: {error}"
    if address.scheme not in ("http", "https") or not address.hostname:
        return "must be a URL such as http://prometheus.monitoring.svc"
    return "must have neither query nor fragment" if address.query or address.fragment else None


def _check_metric(value: str) -> str | None:
    return None if _METRIC.fullmatch(value) else "must be the name of a metric, without labels"


def _check_label(value: str) -> str | None:
    return None if _LABEL.fullmatch(value) else "must be the name of a label, such as pod_name"


def _check_headers(values: tuple[str, ...]) -> str | None:
    wrong = sum(not _HEADER.fullmatch(value) for value in values)
    return f"{wrong} of {len(values)} are not of the form Name=value" if wrong else None


class PrometheusSettings(Settings, frozen=True):
    """Where Prometheus is, what it is asked, and how much of it at once."""

    prometheus_address: Annotated[
        str,
        Setting("Where to find Prometheus, or what speaks its HTTP API.", why="Upstream's.", check=_check_address),
    ] = "http://prometheus.monitoring.svc"
    prometheus_insecure: Annotated[
        bool, Setting("Trust whatever certificate Prometheus shows.", why="Off: a token would go to anybody.")
    ] = False
    prometheus_ca_file: Annotated[
        str,
        Setting(
            "File with the certificate authority that Prometheus's certificate comes from, as PEM.",
            why="Empty: those that the system trusts.",
        ),
    ] = ""
    prometheus_cadvisor_job_name: Annotated[
        str,
        Setting(
            "Value of the label `job` of the containers' metrics; empty asks without it.",
            why="The job in Prometheus's own example of a configuration.",
        ),
    ] = "kubernetes-cadvisor"
    prometheus_query_timeout: Annotated[
        Duration,
        Setting("How long one query may take.", why="Upstream's figure.", minimum=Duration.from_seconds(1)),
    ] = Duration.from_seconds(300)
    prometheus_bearer_token: Annotated[
        str, Setting("Bearer token to show to Prometheus.", why="Empty: none.", secret=True)
    ] = ""
    prometheus_bearer_token_file: Annotated[
        str,
        Setting(
            "File with the bearer token, read again when it changes; it replaces `--prometheus-bearer-token`.",
            why="Empty: no file.",
        ),
    ] = ""
    username: Annotated[
        str, Setting("User name for basic authentication.", why="Empty: none.", variable="PROMETHEUS_USERNAME")
    ] = ""
    password: Annotated[
        str,
        Setting("Password for basic authentication.", why="Empty: none.", variable="PROMETHEUS_PASSWORD", secret=True),
    ] = ""
    prometheus_headers: Annotated[
        tuple[str, ...],
        Setting(
            "Further headers of every request, each as `Name=value`.",
            why="None by default; Mimir and Cortex know a tenant by `X-Scope-OrgID`.",
            check=_check_headers,
            secret=True,
        ),
    ] = ()
    prometheus_retries: Annotated[
        int,
        Setting(
            "How often a query is repeated when Prometheus fails or cannot be reached.",
            why="Four waits of together about half a minute: as long as Prometheus takes to start again.",
            minimum=0,
            maximum=100,
        ),
    ] = 4
    prometheus_answer_limit: Annotated[
        Quantity,
        Setting(
            "Longest answer that is read; what is longer is asked for in smaller pieces.",
            why="Reading an answer takes about four times its length in memory.",
            unit="bytes",
            minimum=Quantity.from_units(1 << 16),
        ),
    ] = Quantity.from_units(32 << 20, binary=True)
    prometheus_namespaces_per_query: Annotated[
        int,
        Setting(
            "Most namespaces that one query names.",
            why="Fifty names are a query of a few kilobytes, and one namespace rarely has many pods.",
            minimum=1,
            maximum=1000,
        ),
    ] = 50
    prometheus_live: Annotated[
        bool,
        Setting(
            "Take live usage from Prometheus, in place of metrics.k8s.io.",
            why="Off, as upstream: metrics-server is fresher and is there in most clusters.",
        ),
    ] = False
    prometheus_live_window: Annotated[
        str,
        Setting(
            "CPU usage is averaged over this long, where live usage comes from Prometheus.",
            why="Long enough for a scrape a minute of which one is lost.",
            unit="Prometheus duration",
            check=check_span,
        ),
    ] = "5m"
    history_length: Annotated[
        str,
        Setting(
            "How far back history is read at start.",
            why="What is eight half-lives old weighs 0.4 % of what is new.",
            unit="Prometheus duration",
            check=check_span,
        ),
    ] = "8d"
    history_resolution: Annotated[
        str,
        Setting(
            "Time between two samples of the history; CPU is averaged over as long.",
            why="Upstream's figure.",
            unit="Prometheus duration",
            check=check_span,
        ),
    ] = "1h"
    history_chunk: Annotated[
        str,
        Setting(
            "How much of the history is asked for at once; less if that is too much for Prometheus.",
            why="A day of 10,000 containers is 9 MB.",
            unit="Prometheus duration",
            check=check_span,
        ),
    ] = "1d"
    history_cpu_metric: Annotated[
        str, Setting("Metric that counts the seconds of CPU used.", why="cAdvisor's.", check=_check_metric)
    ] = "container_cpu_usage_seconds_total"
    history_memory_metric: Annotated[
        str, Setting("Metric of the bytes of memory used.", why="What the kubelet evicts by.", check=_check_metric)
    ] = "container_memory_working_set_bytes"
    container_namespace_label: Annotated[
        str, Setting("Label of those metrics that names the namespace.", why="cAdvisor's.", check=_check_label)
    ] = "namespace"
    container_pod_name_label: Annotated[
        str,
        Setting(
            "Label of those metrics that names the pod.",
            why="Upstream's; it is `pod` where nobody renamed it.",
            check=_check_label,
        ),
    ] = "pod_name"
    container_name_label: Annotated[
        str,
        Setting(
            "Label of those metrics that names the container.",
            why="Upstream's; it is `container` where nobody renamed it.",
            check=_check_label,
        ),
    ] = "name"
    metric_for_pod_labels: Annotated[
        str,
        Setting(
            "Query whose series carry the labels of pods; empty asks for none.",
            why="Upstream's. A range, such as `kube_pod_labels[8d]`, also finds pods that are gone.",
        ),
    ] = 'up{job="kubernetes-pods"}'
    pod_label_prefix: Annotated[
        str, Setting("What stands before the name of a pod's label there.", why="Upstream's.")
    ] = "pod_label_"
    pod_namespace_label: Annotated[
        str, Setting("Label there that names the namespace.", why="Upstream's.", check=_check_label)
    ] = "kubernetes_namespace"
    pod_name_label: Annotated[
        str, Setting("Label there that names the pod.", why="Upstream's.", check=_check_label)
    ] = "kubernetes_pod_name"

    def conflicts(self) -> Iterator[SettingConflict]:
        """Upstream's one rule about credentials, and history that has at least one step."""
        if self.prometheus_bearer_token and self.prometheus_bearer_token_file and self.username:
            rule = "--prometheus-bearer-token, --prometheus-bearer-token-file and --username are mutually exclusive"
            yield SettingConflict("username", rule)
        if duration_seconds(self.history_length) < duration_seconds(self.history_resolution):
            yield SettingConflict("history-length", "must not be shorter than --history-resolution")

    def headers(self) -> dict[str, str]:
        """The further headers by name."""
        matches = [_HEADER.fullmatch(header) for header in self.prometheus_headers]
        if None in matches:
            raise InvalidInput("(hidden)", "--prometheus-headers: each must be of the form Name=value")
        return {match[1]: match[2] for match in matches if match}


def duration_seconds(span: str) -> float:
    """A Prometheus duration that has been checked, in seconds."""
    return parse_prometheus_duration(span).total_seconds()
