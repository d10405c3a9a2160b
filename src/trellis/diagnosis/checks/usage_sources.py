"""Checks the sources of usage: the metrics API, and Prometheus where the recommender is configured with it."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.base.wording import pluralize
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.unread import Unread

METRICS_API_MISSING = Reason(
    "MetricsApiMissing",
    "The cluster has no metrics API, from which recommenders read usage.",
    Severity.ERROR,
)
METRICS_API_DOWN = Reason("MetricsApiDown", "The server behind the metrics API does not answer.", Severity.ERROR)
METRICS_API_EMPTY = Reason("MetricsApiEmpty", "The metrics API answers, but has no usage.", Severity.WARNING)
PROMETHEUS_DOWN = Reason(
    "PrometheusDown", "The Prometheus that the recommender is configured with does not answer.", Severity.WARNING
)

_INSTALL_METRICS: Final = (
    "install metrics-server: kubectl apply -f "
    "https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml"
)
API_SERVICE: Final = "v1beta1.metrics.k8s.io"


class MetricsApiFacts(msgspec.Struct, frozen=True):
    """The APIService of the metrics API, and how many nodes and pods it has usage of; None was not asked.

    `is_available` is None without an APIService.
    """

    is_available: bool | Unread | None = True
    message: str = ""
    nodes: int | Unread = 0
    pods: int | Unread | None = None
    has_running_pods: bool = True


class PrometheusFacts(msgspec.Struct, frozen=True):
    """A configured Prometheus: `problem` is why it does not answer, empty if it does."""

    address: str
    problem: str | Unread = ""


def check_metrics_api(facts: MetricsApiFacts) -> ClusterCheck:
    """The metrics API."""
    name = "metrics API"
    if facts.is_available is None:
        missing = ClusterFinding(METRICS_API_MISSING, API_SERVICE, "is not registered: no usage", _INSTALL_METRICS)
        return ClusterCheck(name, "", (missing,))
    counts = [count for count in (facts.nodes, facts.pods) if isinstance(count, int)]
    # The registration may lag behind: what answers is available.
    if facts.is_available is False and not any(counts):
        reason = f": {facts.message}" if facts.message else ""
        down = ClusterFinding(
            METRICS_API_DOWN,
            API_SERVICE,
            f"is not available{reason}",
            "look at the pods of metrics-server: kubectl get pods -A -l k8s-app=metrics-server",
        )
        return ClusterCheck(name, "", (down,))
    unread = next((count for count in (facts.pods, facts.nodes) if isinstance(count, Unread)), None)
    if unread is not None and not counts:
        if unread.is_forbidden or facts.is_available is not True:
            return ClusterCheck(name, unknown=(unread.to_unknown(),))
        down = ClusterFinding(METRICS_API_DOWN, API_SERVICE, unread.why, "look at the pods and logs of metrics-server")
        return ClusterCheck(name, "", (down,))
    if facts.has_running_pods and not all(counts):
        empty = ClusterFinding(
            METRICS_API_EMPTY,
            API_SERVICE,
            f"answers without usage of any {'pod' if facts.pods == 0 else 'node'}",
            "usage of new pods takes a minute; then look at the log of metrics-server",
        )
        return ClusterCheck(name, "", (empty,))
    nodes = [pluralize(facts.nodes, "node")] if isinstance(facts.nodes, int) else []
    pods = [pluralize(facts.pods, "pod")] if isinstance(facts.pods, int) else []
    return ClusterCheck(name, f"answers for {' and '.join([*nodes, *pods])}")


def check_prometheus(facts: PrometheusFacts | None) -> ClusterCheck:
    """Prometheus, if it is configured."""
    name = "Prometheus"
    if facts is None:
        return ClusterCheck(name, "not configured: history comes from checkpoints")
    if isinstance(facts.problem, Unread):
        return ClusterCheck(name, unknown=(facts.problem.to_unknown(),))
    if facts.problem:
        down = ClusterFinding(
            PROMETHEUS_DOWN,
            facts.address,
            facts.problem,
            "correct --prometheus-address of the recommender; until then history starts with checkpoints",
        )
        return ClusterCheck(name, "", (down,))
    return ClusterCheck(name, f"{facts.address} answers")


def unreachable_from_here(address: str) -> PrometheusFacts:
    """The facts of a Prometheus that is no Service of this cluster."""
    unread = Unread(f"Prometheus {address}", "is no Service of this cluster, and is not asked from here")
    return PrometheusFacts(address, unread)
