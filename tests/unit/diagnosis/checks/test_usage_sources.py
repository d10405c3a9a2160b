"""The metrics API and Prometheus."""

from __future__ import annotations

import pytest

from trellis.base.reasons import Reason
from trellis.diagnosis.checks import usage_sources
from trellis.diagnosis.checks.usage_sources import (
    MetricsApiFacts,
    PrometheusFacts,
    check_metrics_api,
    check_prometheus,
    unreachable_from_here,
)
from trellis.diagnosis.findings import Level
from trellis.diagnosis.unread import Unread

FORBIDDEN = Unread("usage of pods", "may not be read", "list", "pods.metrics.k8s.io", is_forbidden=True)
NO_ANSWER = Unread("usage of pods", "could not be read: the server is currently unable to handle the request")


def test_a_metrics_api_that_answers_is_well() -> None:
    result = check_metrics_api(MetricsApiFacts(True, "", 3, 40))
    assert (result.level, result.summary) == (Level.OK, "answers for 3 nodes and 40 pods")


@pytest.mark.parametrize(
    ("facts", "reason", "words"),
    [
        (MetricsApiFacts(None), usage_sources.METRICS_API_MISSING, "is not registered"),
        (MetricsApiFacts(False, "no endpoints", NO_ANSWER, NO_ANSWER), usage_sources.METRICS_API_DOWN, "no endpoints"),
        (MetricsApiFacts(True, "", NO_ANSWER, NO_ANSWER), usage_sources.METRICS_API_DOWN, "currently unable"),
        (MetricsApiFacts(True, "", 3, 0), usage_sources.METRICS_API_EMPTY, "without usage of any pod"),
        (MetricsApiFacts(True, "", 0), usage_sources.METRICS_API_EMPTY, "without usage of any node"),
    ],
)
def test_a_metrics_api_without_usage_is_found(facts: MetricsApiFacts, reason: Reason, words: str) -> None:
    (finding,) = check_metrics_api(facts).findings
    assert (finding.reason, words in finding.message, bool(finding.action)) == (reason, True, True)


def test_the_action_for_a_missing_metrics_api_installs_it() -> None:
    assert "metrics-server" in check_metrics_api(MetricsApiFacts(None)).findings[0].action


def test_usage_of_nodes_is_enough_where_that_of_pods_was_not_asked_for() -> None:
    assert check_metrics_api(MetricsApiFacts(True, "", 3)).summary == "answers for 3 nodes"
    assert check_metrics_api(MetricsApiFacts(False, "no endpoints", 3)).level is Level.OK


def test_an_empty_cluster_has_no_usage_to_show() -> None:
    assert check_metrics_api(MetricsApiFacts(True, "", 3, 0, has_running_pods=False)).level is Level.OK


def test_usage_that_may_not_be_read_is_unknown() -> None:
    assert check_metrics_api(MetricsApiFacts(True, "", FORBIDDEN, FORBIDDEN)).level is Level.UNKNOWN


def test_prometheus_is_checked_only_if_it_is_configured() -> None:
    assert check_prometheus(None).level is Level.OK
    assert check_prometheus(PrometheusFacts("http://prom.monitoring.svc")).summary.endswith("answers")
    (finding,) = check_prometheus(PrometheusFacts("http://prom.monitoring.svc", "does not exist")).findings
    assert finding.reason is usage_sources.PROMETHEUS_DOWN
    assert check_prometheus(unreachable_from_here("https://example.com")).level is Level.UNKNOWN
