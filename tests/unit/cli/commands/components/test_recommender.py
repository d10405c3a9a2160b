"""`trellis recommender` as upstream's manifests and our users write it. Nothing is started."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from trellis.base.quantities import Quantity
from trellis.cli import component
from trellis.cli.commands.components.recommender import command
from trellis.cli.main import main
from trellis.controllers.recommender.settings import RecommenderSettings, build_lease_names
from trellis.kube.flow_control import Rate
from trellis.runtime.settings.declarations import declared_settings
from trellis.runtime.settings.loader import LoadedSettings
from trellis.runtime.shutdown import Main

# Every flag of upstream's recommender with upstream's default, as one would write it.
ITS_OWN = {
    "recommender-name": "default",
    "recommender-interval": "1m",
    "checkpoints-gc-interval": "10m",
    "checkpoints-timeout": "1m",
    "address": ":8942",
    "storage": "",
    "memory-saver": "false",
    "update-worker-count": "10",
    "min-checkpoints": "10",
    "recommendation-margin-fraction": "0.15",
    "pod-recommendation-min-cpu-millicores": "25",
    "pod-recommendation-min-memory-mb": "250",
    "target-cpu-percentile": "0.9",
    "target-memory-percentile": "0.9",
    "recommendation-lower-bound-cpu-percentile": "0.5",
    "recommendation-upper-bound-cpu-percentile": "0.95",
    "recommendation-lower-bound-memory-percentile": "0.5",
    "recommendation-upper-bound-memory-percentile": "0.95",
    "confidence-interval-cpu": "24h",
    "confidence-interval-memory": "24h",
    "humanize-memory": "false",
    "round-cpu-millicores": "1",
    "round-memory-bytes": "1",
    "cpu-integer-post-processor-enabled": "false",
    "container-recommendation-max-allowed-cpu": "0",
    "container-recommendation-max-allowed-memory": "0",
    "memory-aggregation-interval": "24h",
    "memory-aggregation-interval-count": "8",
    "memory-histogram-decay-half-life": "24h",
    "cpu-histogram-decay-half-life": "24h",
    "oom-bump-up-ratio": "1.2",
    "oom-min-bump-up-bytes": "104857600",
    "use-external-metrics": "false",
    "external-metrics-cpu-metric": "",
    "external-metrics-memory-metric": "",
    "prometheus-address": "http://prometheus.monitoring.svc",
    "prometheus-insecure": "false",
    "prometheus-cadvisor-job-name": "kubernetes-cadvisor",
    "history-length": "8d",
    "history-resolution": "1h",
    "history-cpu-metric": "container_cpu_usage_seconds_total",
    "history-memory-metric": "container_memory_working_set_bytes",
    "prometheus-query-timeout": "5m",
    "pod-label-prefix": "pod_label_",
    "metric-for-pod-labels": 'up{job="kubernetes-pods"}',
    "pod-namespace-label": "kubernetes_namespace",
    "pod-name-label": "kubernetes_pod_name",
    "container-namespace-label": "namespace",
    "container-pod-name-label": "pod_name",
    "container-name-label": "name",
    "username": "",
    "password": "",
    "prometheus-bearer-token": "",
    "prometheus-bearer-token-file": "",
}
COMMON = {
    "kubeconfig": "",
    "profiling": "false",
    "vpa-object-namespace": "",
    "ignored-vpa-object-namespaces": "",
    "feature-gates": "",
}
LEADER_ELECTION = {
    "leader-elect": "false",
    "leader-elect-lease-duration": "15s",
    "leader-elect-renew-deadline": "10s",
    "leader-elect-retry-period": "2s",
    "leader-elect-resource-lock": "leases",
    "leader-elect-resource-name": "vpa-recommender-lease",
    "leader-elect-resource-namespace": "kube-system",
}
LOGGING = {
    "v": "4",
    "stderrthreshold": "info",
    "legacy-stderr-threshold-behavior": "true",
    "logtostderr": "true",
    "alsologtostderr": "false",
    "alsologtostderrthreshold": "",
    "log-dir": "",
    "log-file": "",
    "log-file-max-size": "1800",
    "log-backtrace-at": "",
    "add-dir-header": "false",
    "skip-headers": "false",
    "skip-log-headers": "false",
    "one-output": "false",
    "vmodule": "",
}
UPSTREAM = ITS_OWN | COMMON | LEADER_ELECTION | LOGGING
# Theirs is 50 and 100 requests a second; ours is no limit unless somebody asks for one.
LIMITS = {"kube-api-qps": "50", "kube-api-burst": "100"}

CONFIGURATION = "apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\n"
Reads = Callable[..., RecommenderSettings]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """What the command makes of its arguments, of the environment and of a file, up to the moment it would start."""
    prepare = component._prepare
    loads: list[RecommenderSettings] = []

    def stop_before_the_start(*arguments: Any) -> tuple[LoadedSettings[RecommenderSettings], Main]:
        loads.append(prepare(*arguments)[0].settings)
        raise click.exceptions.Exit(0)

    monkeypatch.setattr(component, "_prepare", stop_before_the_start)

    def read(*arguments: str, environment: Mapping[str, str] | None = None) -> RecommenderSettings:
        result = CliRunner(env=dict(environment or {})).invoke(command, arguments)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return loads.pop()

    return read


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a user is told who gives these flags; nothing is started."""
    with pytest.raises(SystemExit) as stopped:
        main(["recommender", *arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_every_flag_of_upstream_is_there() -> None:
    names = {setting.name for setting in declared_settings(RecommenderSettings)}
    assert (UPSTREAM | LIMITS).keys() <= names


def test_every_flag_of_upstream_is_taken_and_has_upstreams_default(reads: Reads) -> None:
    assert reads(*(f"--{name}={value}" for name, value in UPSTREAM.items())) == reads() == RecommenderSettings()


@pytest.mark.parametrize("name", UPSTREAM)
def test_each_flag_of_upstream_alone_changes_nothing_at_its_default(reads: Reads, name: str) -> None:
    assert reads(f"--{name}={UPSTREAM[name]}") == RecommenderSettings()


def test_requests_are_rate_limited_only_if_configured(reads: Reads) -> None:
    assert (reads().access.kube_api_qps, reads().access.kube_api_burst) == (None, None)
    asked = reads(*(f"--{name}={value}" for name, value in LIMITS.items()))
    assert (asked.access.kube_api_qps, asked.access.kube_api_burst) == (50.0, 100.0)
    assert asked.access.write_rate == Rate(50.0, 100)
    # As Kubernetes' own client has it.
    assert reads("--kube-api-qps=-1").access.write_rate is None
    assert reads("--kube-api-qps=20", "--kube-api-burst=0").access.write_rate == Rate(20.0, 20)
    assert reads("--kube-api-qps=0.5", "--kube-api-burst=-1").access.write_rate == Rate(0.5, 1)


def test_flags_are_taken_as_upstreams_manifests_write_them(reads: Reads) -> None:
    settings = reads("-v=2", "--leader_elect", "--memory-saver", "--feature-gates=PerVPAConfig=false,InPlace=true")
    assert settings.logs.verbosity == 2
    assert settings.leader.leader_elect
    assert settings.loop.memory_saver
    assert not settings.scope.feature_gates.per_vpa_config


def test_times_are_as_short_and_logs_as_long_as_upstream_takes_them(reads: Reads) -> None:
    short = ("recommender-interval", "checkpoints-gc-interval", "checkpoints-timeout", "confidence-interval-cpu")
    settings = reads(*(f"--{name}=500ms" for name in short), "-v=12")
    assert settings.loop.recommender_interval.total_seconds() == 0.5
    assert settings.storage.checkpoints_timeout.total_seconds() == 0.5
    assert settings.logs.verbosity == 12


@pytest.mark.req("CR-08")
def test_the_name_is_default_or_what_is_given_once_or_several_times(reads: Reads) -> None:
    assert reads().loop.recommender_name == ("default",)
    assert reads("--recommender-name=frugal").loop.recommender_name == ("frugal",)
    assert reads("--recommender-name=default,frugal").loop.recommender_name == ("default", "frugal")
    assert reads("--recommender-name=a", "--recommender-name=b").loop.recommender_name == ("a", "b")


@pytest.mark.req("CR-08")
def test_each_name_has_a_lease_of_its_own_and_that_of_default_is_upstreams() -> None:
    assert build_lease_names(["default", "frugal"], "vpa-recommender-lease") == {
        "default": "vpa-recommender-lease",
        "frugal": "vpa-recommender-lease-frugal",
    }
    assert build_lease_names(["frugal"], "vpa-recommender-lease") == {"frugal": "vpa-recommender-lease-frugal"}
    assert build_lease_names(["default", "frugal"], "ours") == {"default": "ours", "frugal": "ours-frugal"}


def test_a_lease_that_is_named_for_one_recommender_is_that_one_as_upstream_has_it(reads: Reads) -> None:
    assert build_lease_names(["frugal"], "frugal-lease") == {"frugal": "frugal-lease"}
    assert build_lease_names(["frugal"], "vpa-recommender-lease", "scaling") == {"frugal": "vpa-recommender-lease"}
    named = "--leader-elect-resource-name=weekly-lease"
    assert reads("--leader-elect", "--recommender-name=Weekly", named).leader.leader_elect_resource_name


@pytest.mark.req("CR-23")
def test_window_and_percentile_can_be_set_for_cpu_and_for_memory(reads: Reads) -> None:
    settings = reads(
        "--target-cpu-percentile=0.6",
        "--target-memory-percentile=0.7",
        "--cpu-histogram-decay-half-life=6h",
        "--memory-histogram-decay-half-life=12h",
        "--memory-aggregation-interval=1h",
    )
    assert (settings.estimates.target_cpu_percentile, settings.estimates.target_memory_percentile) == (0.6, 0.7)
    windows = (settings.memory.cpu_histogram_decay_half_life, settings.memory.memory_histogram_decay_half_life)
    assert [str(duration) for duration in (*windows, settings.memory.memory_aggregation_interval)] == [
        "6h0m0s",
        "12h0m0s",
        "1h0m0s",
    ]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (
            ["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b,c"],
            "--vpa-object-namespace and --ignored-vpa-object-namespaces are mutually exclusive",
        ),
        (
            ["--prometheus-bearer-token=t", "--prometheus-bearer-token-file=/t", "--username=u"],
            "--prometheus-bearer-token, --prometheus-bearer-token-file and --username are mutually exclusive",
        ),
        (["--recommender-name="], "must name at least one recommender"),
        (["--leader-elect", "--recommender-name=Weekly"], "the Lease of Weekly would be vpa-recommender-lease-Weekly"),
        (["--leader-elect-lease-duration=5s"], "must be longer than --leader-elect-renew-deadline"),
        (["--recommender-interval=0s"], "must be longer than 0s"),
        (["--confidence-interval-cpu=-1h"], "must be longer than 0s"),
        (["--checkpoints-timeout=-1s"], "must be longer than 0s"),
        (["--checkpoints-gc-interval=-1s"], "must be at least 0s"),
        (["--target-cpu-percentile=90"], "must be at most 1"),
        (["--memory-aggregation-interval=0s"], "must be longer than 0s"),
        (["--container-recommendation-max-allowed-cpu=-1"], "must be at least 0"),
        (["--container-recommendation-max-allowed-memory=lots"], "--container-recommendation-max-allowed-memory"),
        (["--ignored-vpa-object-namespaces=Kube_System"], "Kube_System is not a valid namespace name"),
        (["--vpa-object-namespace=shop,Bank"], "Bank is not a valid namespace name"),
        (["--oom-bump-up-ratio=0.5"], "must be at least 1"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_invalid_flag_is_refused_with_its_rule(
    capsys: pytest.CaptureFixture[str], arguments: list[str], rule: str
) -> None:
    message = refused(capsys, *arguments)
    assert rule in message
    assert message.startswith("trellis: ")
    assert message.count("\n") == 1


def test_a_secret_is_not_repeated_when_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--prometheus-headers=hunter2")
    assert "--prometheus-headers" in message
    assert "hunter2" not in message


def test_an_unknown_flag_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--recommender-intervall" in refused(capsys, "--recommender-intervall=5s")


@pytest.mark.parametrize("flag", ["-recommender-name=frugal", "-recommender_name", "-kubeconfig=x"])
def test_a_flag_with_one_dash_is_named_whole_with_the_one_that_is_meant(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    meant = flag.partition("=")[0].replace("_", "-")
    assert f"No such option '{meant}'. Did you mean '-{meant}'?" in refused(capsys, "--v=2", flag, "x")
    assert "No such option '-x'." in refused(capsys, "-xyz")


def test_help_all_lists_ours_beside_upstreams_with_their_defaults() -> None:
    result = CliRunner().invoke(command, ["--help-all"])
    assert result.exit_code == 0
    text = result.output.partition("Most used:")[2].partition("Compatibility")[0]
    entries = re.split(r"\n  (?:-\w, )?--(?:\[no-\])?(?=\S)", text)[1:]
    listed = {entry.split()[0]: " ".join(entry.split()) for entry in entries}
    hidden = {setting.name for setting in declared_settings(RecommenderSettings) if setting.setting.obsolete}
    assert listed.keys() == {setting.name for setting in declared_settings(RecommenderSettings)} - hidden
    assert hidden > {"memory-saver", "min-checkpoints", "logtostderr"}
    assert "[default: 200]" in listed["checkpoint-writes-per-pass"]
    assert "[default: 0.05]" in listed["status-change-threshold"]
    assert "[default: false]" in listed["read-only"]


def test_a_file_and_the_environment_set_what_flags_set_and_flags_win(reads: Reads, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(
        f"{CONFIGURATION}readOnly: true\n"
        "recommender:\n"
        "  recommenderName: [default, frugal]\n"
        "  recommenderInterval: 30s\n"
        "  targetCpuPercentile: 0.5\n"
        "  containerRecommendationMaxAllowedMemory: 8Gi\n"
        "updater: {minReplicas: not ours}\n"
    )
    environment = {"TRELLIS_RECOMMENDER_INTERVAL": "20s", "TRELLIS_TARGET_CPU_PERCENTILE": "0.6"}
    settings = reads(f"--config={file}", "--target-cpu-percentile=0.7", environment=environment)
    assert settings.loop.recommender_name == ("default", "frugal")
    assert settings.access.read_only is True
    assert settings.estimates.container_recommendation_max_allowed_memory == Quantity.parse("8Gi")
    assert str(settings.loop.recommender_interval) == "20s"
    assert settings.estimates.target_cpu_percentile == 0.7


def test_credentials_of_prometheus_come_from_upstreams_variables_unless_ours_are_set(reads: Reads) -> None:
    upstreams = {"PROMETHEUS_USERNAME": "ada", "PROMETHEUS_PASSWORD": "secret"}
    settings = reads(environment=upstreams).prometheus
    assert (settings.username, settings.password) == ("ada", "secret")
    assert reads(environment=upstreams | {"TRELLIS_USERNAME": "grace"}).prometheus.username == "grace"


def test_a_bad_value_in_a_file_or_the_environment_is_refused_with_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"{CONFIGURATION}recommender:\n  updateWorkerCount: 0\n  recommenderNam: frugal\n")
    message = refused(capsys, f"--config={file}")
    assert str(file) in message
    assert "line 4: recommender.updateWorkerCount: Invalid value: 0: must be greater than or equal to 1" in message
    assert "line 5: recommender.recommenderNam: Unknown field" in message
    assert 'did you mean "recommenderName"?' in message
    file.write_text("recommender-name: frugal\n")
    assert "is not a TrellisConfiguration: begin it with" in refused(capsys, f"--config={file}")
    monkeypatch.setenv("TRELLIS_STATUS_CHANGE_THRESHOLD", "5%")
    message = refused(capsys)
    assert "environment variable TRELLIS_STATUS_CHANGE_THRESHOLD: must be a number" in message
