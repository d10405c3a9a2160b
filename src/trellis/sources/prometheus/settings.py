"""Settings of Prometheus: upstream's flags with their defaults, and limits of single queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Final
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
    """Connection to Prometheus, and names of metrics and labels in it."""

    title: ClassVar[str] = "Prometheus"

    prometheus_address: Annotated[
        str,
        Setting(
            "URL of Prometheus, or of a server with its HTTP API.", why="Upstream's default.", check=_check_address
        ),
    ] = "http://prometheus.monitoring.svc"
    prometheus_insecure: Annotated[
        bool,
        Setting(
            "Skip the verification of Prometheus's TLS certificate.",
            why="Off: without verification, another server could receive the token.",
        ),
    ] = False
    prometheus_ca_file: Annotated[
        str,
        Setting(
            "Path of the CA certificate for Prometheus's TLS certificate, PEM-encoded.",
            why="Empty: the CAs of the system.",
        ),
    ] = ""
    prometheus_cadvisor_job_name: Annotated[
        str,
        Setting(
            "Value of the label `job` of the container metrics; empty: any.",
            why="Upstream's default: the job in Prometheus's example configuration.",
        ),
    ] = "kubernetes-cadvisor"
    prometheus_query_timeout: Annotated[
        Duration,
        Setting("Timeout of one query.", why="Upstream's default.", minimum=Duration.from_seconds(1)),
    ] = Duration.from_seconds(300)
    prometheus_bearer_token: Annotated[
        str, Setting("Bearer token for Prometheus.", why="Empty: none.", secret=True)
    ] = ""
    prometheus_bearer_token_file: Annotated[
        str,
        Setting(
            "Path of the bearer token, read again when it changes; takes precedence over `--prometheus-bearer-token`.",
            why="Empty: no file.",
        ),
    ] = ""
    username: Annotated[
        str,
        Setting(
            "User name for basic authentication with Prometheus.", why="Empty: none.", variable="PROMETHEUS_USERNAME"
        ),
    ] = ""
    password: Annotated[
        str,
        Setting(
            "Password for basic authentication with Prometheus.",
            why="Empty: none.",
            variable="PROMETHEUS_PASSWORD",
            secret=True,
        ),
    ] = ""
    password_file: Annotated[
        str,
        Setting(
            "Path of the password, read again when it changes; takes precedence over `--password`.",
            why="Empty: no file.",
        ),
    ] = ""
    prometheus_headers: Annotated[
        tuple[str, ...],
        Setting(
            "Additional headers of all requests to Prometheus, each as `Name=value`.",
            why="Mimir and Cortex identify a tenant by `X-Scope-OrgID`.",
            check=_check_headers,
            secret=True,
        ),
    ] = ()
    prometheus_headers_file: Annotated[
        str,
        Setting(
            "Path of a file with additional headers, one `Name=value` on each line, read at the start; those of "
            "`--prometheus-headers` win.",
            why="Empty: no file.",
        ),
    ] = ""
    prometheus_retries: Annotated[
        int,
        Setting(
            "Number of retries of a query when Prometheus fails or cannot be reached.",
            why="Four retries take about half a minute: as long as a restart of Prometheus.",
            minimum=0,
            maximum=100,
        ),
    ] = 4
    prometheus_answer_limit: Annotated[
        Quantity,
        Setting(
            "Maximum length of a response; a longer one is requested in smaller parts.",
            why="Reading a response takes about four times its length in memory.",
            unit="bytes",
            minimum=Quantity.from_units(1 << 16),
        ),
    ] = Quantity.from_units(32 << 20, binary=True)
    prometheus_namespaces_per_query: Annotated[
        int,
        Setting(
            "Maximum number of namespaces in one query.",
            why="With fifty, a query has a few kilobytes, and its response rarely exceeds the limit.",
            minimum=1,
            maximum=1000,
        ),
    ] = 50
    prometheus_live: Annotated[
        bool,
        Setting(
            "Read live usage from Prometheus instead of metrics.k8s.io.",
            why="Off, as upstream: metrics-server is more current, and most clusters have it.",
        ),
    ] = False
    prometheus_live_window: Annotated[
        str,
        Setting(
            "Window over which live CPU usage from Prometheus is averaged.",
            why="Long enough for one scrape a minute, one of which may fail.",
            unit="Prometheus duration",
            check=check_span,
        ),
    ] = "5m"
    history_length: Annotated[
        str,
        Setting(
            "How far back to query Prometheus for usage history at start.",
            why="Upstream's default: after eight half-lives a sample has 0.4 % of its weight.",
            unit="Prometheus duration",
            check=check_span,
        ),
    ] = "8d"
    history_resolution: Annotated[
        str,
        Setting(
            "Resolution of the history; CPU usage is averaged over the same time.",
            why="Upstream's default.",
            unit="Prometheus duration",
            check=check_span,
        ),
    ] = "1h"
    history_chunk: Annotated[
        str,
        Setting(
            "Length of history in one query; halved when a response is too long.",
            why="One day of 10,000 containers is 9 MB.",
            unit="Prometheus duration",
            check=check_span,
        ),
    ] = "1d"
    history_cpu_metric: Annotated[
        str,
        Setting(
            "Name of the metric of CPU usage, in seconds of CPU time.",
            why="Upstream's default: cAdvisor's name.",
            check=_check_metric,
        ),
    ] = "container_cpu_usage_seconds_total"
    history_memory_metric: Annotated[
        str,
        Setting(
            "Name of the metric of memory usage, in bytes.",
            why="Upstream's default: the kubelet decides by it which pods to evict.",
            check=_check_metric,
        ),
    ] = "container_memory_working_set_bytes"
    container_namespace_label: Annotated[
        str,
        Setting(
            "Label of these metrics that holds the name of the namespace.",
            why="Upstream's default: cAdvisor's name.",
            check=_check_label,
        ),
    ] = "namespace"
    container_pod_name_label: Annotated[
        str,
        Setting(
            "Label of these metrics that holds the name of the pod.",
            why="Upstream's default; cAdvisor's own name is `pod`.",
            check=_check_label,
        ),
    ] = "pod_name"
    container_name_label: Annotated[
        str,
        Setting(
            "Label of these metrics that holds the name of the container.",
            why="Upstream's default; cAdvisor's own name is `container`.",
            check=_check_label,
        ),
    ] = "name"
    metric_for_pod_labels: Annotated[
        str,
        Setting(
            "Query for the labels of pods; empty: labels are not queried.",
            why="Upstream's default. A range, such as `kube_pod_labels[8d]`, also finds pods that no longer exist.",
        ),
    ] = 'up{job="kubernetes-pods"}'
    pod_label_prefix: Annotated[
        str, Setting("Prefix of pod labels in that query's series.", why="Upstream's default.")
    ] = "pod_label_"
    pod_namespace_label: Annotated[
        str,
        Setting(
            "Label of that query's series that holds the name of the namespace.",
            why="Upstream's default.",
            check=_check_label,
        ),
    ] = "kubernetes_namespace"
    pod_name_label: Annotated[
        str,
        Setting(
            "Label of that query's series that holds the name of the pod.",
            why="Upstream's default.",
            check=_check_label,
        ),
    ] = "kubernetes_pod_name"

    def conflicts(self) -> Iterator[SettingConflict]:
        """Credentials exclude one another as upstream has it, and the history has at least one step."""
        if self.prometheus_bearer_token and self.prometheus_bearer_token_file and self.username:
            rule = "--prometheus-bearer-token, --prometheus-bearer-token-file and --username are mutually exclusive"
            yield SettingConflict("username", rule)
        if duration_seconds(self.history_length) < duration_seconds(self.history_resolution):
            yield SettingConflict("history-length", "must not be shorter than --history-resolution")

    def headers(self) -> dict[str, str]:
        """The additional headers by name, with those of the file; raises `InvalidInput`."""
        headers: dict[str, str] = {}
        for setting, lines in (
            (f"--prometheus-headers-file {self.prometheus_headers_file}", self._read_headers_file()),
            ("--prometheus-headers", self.prometheus_headers),
        ):
            for line in lines:
                match = _HEADER.fullmatch(line)
                if match is None:
                    raise InvalidInput("(hidden)", f"{setting}: each must be of the form Name=value")
                headers[match[1]] = match[2]
        return headers

    def _read_headers_file(self) -> tuple[str, ...]:
        if not self.prometheus_headers_file:
            return ()
        try:
            text = Path(self.prometheus_headers_file).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
            rule = f"--prometheus-headers-file cannot be read: {reason}"
            raise InvalidInput(self.prometheus_headers_file, rule) from error
        return tuple(line.strip() for line in text.splitlines() if line.strip())


def duration_seconds(span: str) -> float:
    """A Prometheus duration that has been checked, in seconds."""
    return parse_prometheus_duration(span).total_seconds()
