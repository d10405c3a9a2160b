"""Each alert fires for what it is about, says so in words, and stays silent for what only resembles it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from trellis.install.monitoring.alerts.alert import Alert
from trellis.install.monitoring.dashboards.grafana import DASHBOARDS
from trellis.install.monitoring.rules import ALERTS, alert_rules

RULES = Path(__file__).resolve().parents[3] / "deploy" / "monitoring" / "rules.yaml"

Series = Mapping[str, str]

# The labels of a scraped pod.
A = 'namespace="kube-system",instance="a"'
B = 'namespace="kube-system",instance="b"'
UPDATER = f'{A},component="updater"'
OTHER_UPDATER = f'{B},component="updater"'
PODS = f'{UPDATER},resource="pods"'
HOOK = 'name="vpa.k8s.io",type="admit"'
SPARE = f'{A},buffer_namespace="shop",buffer_name="spare"'
DAY = 86400


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Series in promtool's notation, one sample a minute, with which an alert fires, and some with which it does not.

    `value` is the value as the description shows it.
    """

    alert: str
    fires: Series
    at: str
    silent: tuple[Series, ...]
    labels: Mapping[str, str] = {}
    value: str = ""


CASES = (
    Case(
        alert="TrellisComponentDown",
        fires={f'trellis_build_info{{{UPDATER},version="1"}}': "1x5 stale"},
        at="12m",
        silent=(
            {
                f'trellis_build_info{{{UPDATER},version="1"}}': "1x5 stale",
                f'trellis_build_info{{{OTHER_UPDATER},version="2"}}': "1x30",
            },
        ),
        labels={"component": "updater"},
    ),
    Case(
        alert="TrellisComponentNotReady",
        fires={f"trellis_component_ready{{{UPDATER}}}": "0x30", f"trellis_component_ready{{{OTHER_UPDATER}}}": "0x30"},
        at="11m",
        silent=(
            {f"trellis_component_ready{{{UPDATER}}}": "0x30", f"trellis_component_ready{{{OTHER_UPDATER}}}": "1x30"},
        ),
        labels={"component": "updater"},
    ),
    Case(
        alert="TrellisComponentRestarting",
        fires={f'trellis_component_restarts_total{{{UPDATER},reason="failed"}}': "0 1 2 3 4x60"},
        at="10m",
        silent=({f'trellis_component_restarts_total{{{UPDATER},reason="failed"}}': "0 1 2x60"},),
        labels={"component": "updater", "reason": "failed"},
        value="4",
    ),
    Case(
        alert="TrellisComponentLeaderless",
        fires={
            f'trellis_component_leader{{{UPDATER},name=""}}': "0x30",
            f'trellis_component_leader{{{OTHER_UPDATER},name=""}}': "0x30",
        },
        at="3m",
        silent=(
            {
                f'trellis_component_leader{{{UPDATER},name=""}}': "0x30",
                f'trellis_component_leader{{{OTHER_UPDATER},name=""}}': "1x30",
            },
        ),
        labels={"component": "updater"},
    ),
    Case(
        alert="TrellisPassesLate",
        fires={
            f"trellis_component_pass_interval_seconds{{{UPDATER}}}": "60x30",
            f"trellis_component_last_pass_timestamp_seconds{{{UPDATER}}}": "0x30",
        },
        at="16m",
        silent=(
            {
                f"trellis_component_pass_interval_seconds{{{UPDATER}}}": "60x30",
                f"trellis_component_pass_interval_seconds{{{OTHER_UPDATER}}}": "60x30",
                f"trellis_component_last_pass_timestamp_seconds{{{UPDATER}}}": "0+60x30",
            },
        ),
        labels={"component": "updater"},
    ),
    Case(
        alert="TrellisPassesLate",
        fires={f"trellis_component_pass_interval_seconds{{{UPDATER}}}": "60x30"},
        at="11m",
        silent=(),
        labels={"component": "updater"},
    ),
    Case(
        alert="TrellisPassesLate",
        # Two replicas share namespaces, and one of them is stuck.
        fires={
            f"trellis_component_pass_interval_seconds{{{UPDATER}}}": "60x30",
            f"trellis_component_last_pass_timestamp_seconds{{{UPDATER}}}": "0x30",
            f'trellis_component_leader{{{UPDATER},name=""}}': "1x30",
            f"trellis_component_last_pass_timestamp_seconds{{{OTHER_UPDATER}}}": "0+60x30",
            f'trellis_component_leader{{{OTHER_UPDATER},name=""}}': "1x30",
        },
        at="16m",
        silent=(
            # The replica that waits led before.
            {
                f"trellis_component_pass_interval_seconds{{{UPDATER}}}": "60x30",
                f"trellis_component_last_pass_timestamp_seconds{{{UPDATER}}}": "0x30",
                f'trellis_component_leader{{{UPDATER},name=""}}': "0x30",
                f"trellis_component_last_pass_timestamp_seconds{{{OTHER_UPDATER}}}": "0+60x30",
                f'trellis_component_leader{{{OTHER_UPDATER},name=""}}': "1x30",
            },
        ),
        labels={"component": "updater"},
    ),
    Case(
        alert="TrellisPassesFailing",
        fires={f"trellis_component_failed_passes{{{UPDATER}}}": "0+1x30"},
        at="10m",
        silent=({f"trellis_component_failed_passes{{{UPDATER}}}": "0 1 2 0 1 2 0 1 2 0 1 2 0 1 2 0 1 2"},),
        labels={"component": "updater"},
        value="10",
    ),
    Case(
        alert="TrellisPassesSlow",
        fires={
            f"trellis_component_pass_interval_seconds{{{UPDATER}}}": "60x60",
            f"trellis_component_last_pass_duration_seconds{{{UPDATER}}}": "90x60",
        },
        at="31m",
        silent=(
            {
                f"trellis_component_pass_interval_seconds{{{UPDATER}}}": "60x60",
                f"trellis_component_last_pass_duration_seconds{{{UPDATER}}}": "50x60",
            },
        ),
        labels={"component": "updater"},
        value="1m 30s",
    ),
    Case(
        alert="TrellisInternalErrors",
        fires={f"trellis_hvpa_failures_total{{{A}}}": "0x5 1x30", f"trellis_buffers_failures_total{{{A}}}": "0x40"},
        at="20m",
        silent=({f"trellis_hvpa_failures_total{{{A}}}": "3x40"},),
        labels={"component": "hvpa"},
        value="1",
    ),
    Case(
        alert="TrellisInformerDisconnected",
        fires={
            f"trellis_informer_connected{{{PODS}}}": "0x30",
            f'trellis_informer_connected{{{OTHER_UPDATER},resource="pods"}}': "1x30",
        },
        at="6m",
        silent=({f"trellis_informer_connected{{{PODS}}}": "0 0 0 0 1 0 0 0 1x30"},),
        labels={"component": "updater", "resource": "pods"},
    ),
    Case(
        alert="TrellisKindUnreadable",
        fires={f"trellis_unseen_resources{{{PODS}}}": "1x30"},
        at="16m",
        silent=({f"trellis_unseen_resources{{{PODS}}}": "1 1 1 0x30"},),
        labels={"component": "updater", "resource": "pods"},
    ),
    Case(
        alert="TrellisObjectsUnreadable",
        fires={f"trellis_informer_rejected_objects{{{PODS}}}": "2x30"},
        at="16m",
        silent=({f"trellis_informer_rejected_objects{{{PODS}}}": "0x30"},),
        labels={"component": "updater", "resource": "pods"},
        value="2",
    ),
    Case(
        alert="TrellisWritesFailing",
        fires={
            f'trellis_writes_total{{{PODS},action="EvictPod",result="Forbidden"}}': "0+1x60",
            f'trellis_writes_total{{{PODS},action="EvictPod",result="Applied"}}': "0+1x60",
        },
        at="40m",
        silent=(
            {
                f'trellis_writes_total{{{PODS},action="EvictPod",result="Failed"}}': "0+1x60",
                f'trellis_writes_total{{{PODS},action="EvictPod",result="Applied"}}': "0+10x60",
            },
            # What another writer or a disruption budget prevents is tried again.
            {
                f'trellis_writes_total{{{PODS},action="EvictPod",result="Conflict"}}': "0+5x60",
                f'trellis_writes_total{{{PODS},action="EvictPod",result="Refused"}}': "0+5x60",
            },
        ),
        labels={"component": "updater", "resource": "pods", "action": "EvictPod", "result": "Forbidden"},
        value="50%",
    ),
    Case(
        alert="TrellisWebhookUnreachable",
        fires={f"apiserver_admission_webhook_fail_open_count{{{HOOK}}}": "0+1x30"},
        at="20m",
        silent=(
            {'apiserver_admission_webhook_fail_open_count{name="other.example",type="admit"}': "0+1x30"},
            {f'apiserver_admission_webhook_rejection_count{{{HOOK},error_type="no_error"}}': "0+1x30"},
        ),
        labels={"name": "vpa.k8s.io"},
        value="10",
    ),
    Case(
        alert="TrellisWebhookUnreachable",
        fires={f'apiserver_admission_webhook_rejection_count{{{HOOK},error_type="calling_webhook_error"}}': "0+2x30"},
        at="20m",
        silent=(),
        labels={"name": "vpa.k8s.io"},
        value="20",
    ),
    Case(
        alert="TrellisWebhookFailing",
        fires={
            f'vpa_admission_controller_admission_latency_seconds_count{{{A},status="error"}}': "0+6x30",
            f'vpa_admission_controller_admission_latency_seconds_count{{{A},status="applied"}}': "0+94x30",
        },
        at="20m",
        silent=(
            {
                f'vpa_admission_controller_admission_latency_seconds_count{{{A},status="error"}}': "0+1x30",
                f'vpa_admission_controller_admission_latency_seconds_count{{{A},status="skipped"}}': "0+99x30",
            },
            {f'vpa_admission_controller_admission_latency_seconds_count{{{A},status="error"}}': "0x30"},
        ),
        value="6%",
    ),
    Case(
        alert="TrellisWebhookSlow",
        fires={
            f'vpa_admission_controller_execution_latency_seconds_bucket{{{A},step="total",le="0.5"}}': "0x30",
            f'vpa_admission_controller_execution_latency_seconds_bucket{{{A},step="total",le="1"}}': "0+10x30",
            f'vpa_admission_controller_execution_latency_seconds_bucket{{{A},step="total",le="+Inf"}}': "0+10x30",
        },
        at="20m",
        silent=(
            {
                f'vpa_admission_controller_execution_latency_seconds_bucket{{{A},step="total",le="0.1"}}': "0+10x30",
                f'vpa_admission_controller_execution_latency_seconds_bucket{{{A},step="total",le="+Inf"}}': "0+10x30",
            },
        ),
        value="995ms",
    ),
    Case(
        alert="TrellisWebhookNotRegistered",
        fires={f"trellis_admission_webhook_registered{{{A}}}": "0x30"},
        at="6m",
        silent=(
            {
                f"trellis_admission_webhook_registered{{{A}}}": "0x30",
                f"trellis_admission_webhook_registered{{{B}}}": "1x30",
            },
            # Without --register-webhook.
            {f"trellis_admission_webhook_registered{{{A}}}": " ".join(["NaN"] * 10)},
        ),
    ),
    Case(
        alert="TrellisCertificateExpiring",
        fires={
            f'trellis_admission_certificate_expiry_timestamp_seconds{{{A},certificate="serving"}}': "1000000x90",
            f'trellis_admission_certificate_expiry_timestamp_seconds{{{B},certificate="serving"}}': "9000000x90",
        },
        at="70m",
        silent=(
            {f'trellis_admission_certificate_expiry_timestamp_seconds{{{A},certificate="serving"}}': f"{15 * DAY}x90"},
        ),
        labels={"certificate": "serving"},
        value="11d 12h 36m 40s",
    ),
    Case(
        alert="TrellisUsageStale",
        fires={
            f"trellis_recommender_newest_sample_timestamp_seconds{{{A}}}": "0x40",
            f'vpa_recommender_vpa_objects_count{{{A},matches_pods="true"}}': "3x40",
        },
        at="21m",
        silent=(
            {
                f"trellis_recommender_newest_sample_timestamp_seconds{{{A}}}": "0x40",
                f'vpa_recommender_vpa_objects_count{{{A},matches_pods="true"}}': "0x40",
                f'vpa_recommender_vpa_objects_count{{{A},matches_pods="false"}}': "3x40",
            },
            {
                f"trellis_recommender_newest_sample_timestamp_seconds{{{A}}}": "0+60x40",
                # The replica that waits.
                f"trellis_recommender_newest_sample_timestamp_seconds{{{B}}}": "0x40",
                f'vpa_recommender_vpa_objects_count{{{A},matches_pods="true"}}': "3x40",
            },
        ),
    ),
    Case(
        alert="TrellisAdmissionAbsent",
        fires={f"trellis_updater_admission_live{{{A}}}": "0x30"},
        at="11m",
        silent=({f"trellis_updater_admission_live{{{A}}}": "1x30", f"trellis_updater_admission_live{{{B}}}": "0x30"},),
    ),
    Case(
        alert="TrellisEvictionLoop",
        fires={f'trellis_updater_pods{{{A},way="Leave",reason="EvictionLoop"}}': "2x30"},
        at="11m",
        silent=({f'trellis_updater_pods{{{A},way="Leave",reason="Frozen"}}': "2x30"},),
        value="2",
    ),
    Case(
        alert="TrellisFrozen",
        # A restart of the updater in between.
        fires={
            f'trellis_updater_pods{{{A},way="Leave",reason="Frozen"}}': "3x700 stale",
            f'trellis_updater_pods{{{B},way="Leave",reason="Frozen"}}': "_x710 3x800",
        },
        at="24h10m",
        silent=({f'trellis_updater_pods{{{A},way="Leave",reason="Frozen"}}': "3x720 0x800"},),
        value="3",
    ),
    Case(
        alert="TrellisRecommendationsNotApplied",
        fires={
            f'vpa_updater_evictable_pods_total{{{A},vpa_size_log2="0"}}': "3x800",
            f'vpa_updater_in_place_updatable_pods_total{{{A},vpa_size_log2="0"}}': "1x800",
            f'vpa_updater_evicted_pods_total{{{A},vpa_name="web"}}': "5x800",
            f'vpa_updater_in_place_updated_pods_total{{{A},vpa_name="web"}}': "5x800",
        },
        at="6h10m",
        silent=(
            {
                f'vpa_updater_evictable_pods_total{{{A},vpa_size_log2="0"}}': "3x800",
                f'vpa_updater_in_place_updatable_pods_total{{{A},vpa_size_log2="0"}}': "0x800",
                f'vpa_updater_evicted_pods_total{{{A},vpa_name="web"}}': "5x200 6x600",
                f'vpa_updater_in_place_updated_pods_total{{{A},vpa_name="web"}}': "5x800",
            },
            {
                f'vpa_updater_evictable_pods_total{{{A},vpa_size_log2="0"}}': "0x800",
                f'vpa_updater_in_place_updatable_pods_total{{{A},vpa_size_log2="0"}}': "0x800",
            },
            # With --read-only.
            {
                f'vpa_updater_evictable_pods_total{{{A},vpa_size_log2="0"}}': "3x800",
                f'vpa_updater_in_place_updatable_pods_total{{{A},vpa_size_log2="0"}}': "1x800",
                f'vpa_updater_evicted_pods_total{{{A},vpa_name="web"}}': "0x800",
                f'vpa_updater_in_place_updated_pods_total{{{A},vpa_name="web"}}': "0x800",
                f'trellis_writes_total{{{UPDATER},resource="pods",action="EvictPod",result="Skipped"}}': "0+1x800",
            },
        ),
        value="4",
    ),
    Case(
        alert="TrellisBufferNotProvisioned",
        fires={
            f"trellis_nodes_buffer_chunks{{{SPARE}}}": "5x30",
            f"trellis_nodes_buffer_provisioned_chunks{{{SPARE}}}": "3x30",
        },
        at="16m",
        silent=(
            {
                f"trellis_nodes_buffer_chunks{{{SPARE}}}": "5x30",
                f"trellis_nodes_buffer_provisioned_chunks{{{SPARE}}}": "5x30",
                f"trellis_buffers_chunks{{{SPARE}}}": "5x30",
            },
        ),
        labels={"buffer_namespace": "shop", "buffer_name": "spare"},
        value="5",
    ),
    Case(
        alert="TrellisBufferNotProvisioned",
        fires={
            f"trellis_buffers_chunks{{{SPARE}}}": "4x30",
            f"trellis_buffers_provisioned_chunks{{{SPARE}}}": "3x30",
        },
        at="16m",
        silent=(),
        labels={"buffer_namespace": "shop", "buffer_name": "spare"},
        value="4",
    ),
    Case(
        alert="TrellisNodeGroupBackedOff",
        fires={f'trellis_nodes_group_backoff_seconds{{{A},group="large"}}': "300 240 180 120 60 0 300 240x30"},
        at="16m",
        silent=({f'trellis_nodes_group_backoff_seconds{{{A},group="large"}}': "300 240 180 120 60 0x60"},),
        labels={"group": "large"},
        value="4m 0s",
    ),
    Case(
        alert="TrellisNodeProviderFailing",
        fires={
            f'trellis_nodes_provider_failures_total{{{A},call="groups",reason="ProviderTimedOut"}}': "0+1x60",
        },
        at="40m",
        silent=({f'trellis_nodes_provider_failures_total{{{A},call="groups",reason="ProviderTimedOut"}}': "0 1 2x60"},),
        labels={"call": "groups", "reason": "ProviderTimedOut"},
        value="15",
    ),
)


def run(promtool: Path, *arguments: str | Path) -> None:
    """Run promtool, and fail with what it prints."""
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def find(name: str) -> Alert:
    return next(alert for alert in ALERTS if alert.name == name)


def rendered(text: str, case: Case) -> str:
    """A template with the labels and the value of a case."""
    labels = {"namespace": "kube-system", **case.labels}
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels.get(match[1], ""), text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", case.value, text)


def expected(case: Case) -> dict[str, Any]:
    """The alert of a case as promtool compares it."""
    alert = find(case.alert)
    # Those of the API server have no namespace of ours.
    installation = {} if case.alert == "TrellisWebhookUnreachable" else {"namespace": "kube-system"}
    annotations = {
        "summary": rendered(alert.summary, case),
        "description": rendered(alert.description, case),
        "runbook_url": f"https://docs.example/{alert.name}.md",
    }
    return {
        "exp_labels": {"severity": str(alert.severity), **installation, **case.labels},
        "exp_annotations": annotations,
    }


def group_of(case: Case, series: Series, at: str, alerts: list[dict[str, Any]]) -> dict[str, Any]:
    samples = [{"series": name, "values": values} for name, values in series.items()]
    check = {"eval_time": at, "alertname": case.alert, "exp_alerts": alerts}
    return {"interval": "1m", "input_series": samples, "alert_rule_test": [check]}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The rules as a file, with addresses of runbooks of their own."""
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": list(alert_rules(runbooks="https://docs.example/").values())}))
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_when_its_time_is_up_and_not_for_what_resembles_it(
    promtool: Path, rules: Path, tmp_path: Path, case: Case
) -> None:
    groups = [group_of(case, case.fires, case.at, [expected(case)])]
    groups += [group_of(case, series, case.at, []) for series in case.silent]
    if find(case.alert).lasting != "0m":
        groups.append(group_of(case, case.fires, "1m", []))
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": groups}))
    run(promtool, "test", "rules", tests)


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == {alert.name for alert in ALERTS}
    assert all(any(case.silent for case in CASES if case.alert == alert.name) for alert in ALERTS)


def test_the_shipped_rule_file_is_valid_for_prometheus(promtool: Path) -> None:
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", RULES)


def test_every_query_of_every_dashboard_is_valid_for_prometheus(promtool: Path, tmp_path: Path) -> None:
    # As rules of recording, so that one call checks them all.
    queries = sorted(
        {
            query.filtered.replace("$__rate_interval", "5m")
            for dashboard in DASHBOARDS
            for row in dashboard.rows
            for panel in row.panels
            for query in panel.queries
        }
    )
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    run(promtool, "check", "rules", "--lint=none", path)
