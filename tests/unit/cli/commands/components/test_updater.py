"""`trellis updater` takes upstream's flags with upstream's defaults, and says what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trellis.api.feature_gates import FeatureGates
from trellis.cli.main import main
from trellis.controllers.updater.settings import UpdaterSettings, update_settings
from trellis.core.resize.settings import UpdateSettings
from trellis.kube.discovery import Served, ServedKind, ServerVersion
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.settings.declarations import declared_settings
from trellis.runtime.settings.loader import from_environment, from_flags, load_settings

# Upstream's own with their defaults.
UPSTREAM = {
    "updater-interval": "1m",
    "min-replicas": "2",
    "eviction-tolerance": "0.5",
    "eviction-rate-limit": "-1",
    "eviction-rate-burst": "1",
    "address": ":8943",
    "use-admission-controller-status": "true",
    "admission-controller-status-lease-name": "vpa-admission-controller",
    "admission-controller-status-lease-namespace": "kube-system",
    "admission-controller-status-lease-timeout": "1m",
    "in-place-skip-disruption-budget": "false",
    "pod-update-threshold": "0.1",
    "in-recommendation-bounds-eviction-lifetime-threshold": "12h",
    "evict-after-oom-threshold": "10m",
    "concurrent-cpu-startup-boost-syncs": "1",
    "vpa-object-namespace": "",
    "ignored-vpa-object-namespaces": "",
    "kubeconfig": "",
    "leader-elect": "false",
    "leader-elect-lease-duration": "15s",
    "leader-elect-renew-deadline": "10s",
    "leader-elect-retry-period": "2s",
    "leader-elect-resource-lock": "leases",
    "leader-elect-resource-name": "vpa-updater",
    "leader-elect-resource-namespace": "kube-system",
}
# Taken as well, with another default, or with none.
TAKEN = {"feature-gates", "kube-api-qps", "kube-api-burst", "profiling", "v", "stderrthreshold"}

DEPLOY = Path(__file__).parents[5] / "deploy"
RESIZES = Served((ServedKind("", "v1", "pods", "Pod", True, subresources=("resize",)),))


def test_every_flag_of_upstream_is_taken_and_has_its_default() -> None:
    known = {setting.name: setting for setting in declared_settings(UpdaterSettings)}
    assert UPSTREAM.keys() | TAKEN <= known.keys()
    given = {known[name].parameter: value for name, value in UPSTREAM.items()}
    assert load_settings(UpdaterSettings, from_flags(UpdaterSettings, given)).settings == UpdaterSettings()


def test_the_lease_is_looked_for_where_the_updater_runs_itself() -> None:
    given = load_settings(UpdaterSettings, from_environment(UpdaterSettings, {"NAMESPACE": "vpa"})).settings
    assert given.admission.admission_controller_status_lease_namespace == "vpa"
    manifests = yaml.safe_load_all((DEPLOY / "updater.yaml").read_text())
    [deployment] = [manifest for manifest in manifests if manifest["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    [variable] = container["env"]
    assert variable == {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}


def test_no_least_number_of_pods_is_a_number_too() -> None:
    given = load_settings(UpdaterSettings, from_flags(UpdaterSettings, {"min_replicas": "0"})).settings
    assert update_settings(given, RESIZES, ServerVersion("1", "36")).min_replicas == 0


@pytest.mark.parametrize(("interval", "pause"), [("5s", 5.0), ("1m", 60.0), ("1h", 60.0)])
def test_what_failed_is_tried_again_in_the_next_pass_and_after_a_minute_at_the_latest(
    interval: str, pause: float
) -> None:
    given = load_settings(UpdaterSettings, from_flags(UpdaterSettings, {"updater_interval": interval})).settings
    settings = update_settings(given, RESIZES, ServerVersion("1", "36"))
    assert (settings.retry, settings.budget_retry) == (pause, pause)


def test_without_flags_plans_are_made_by_the_figures_of_the_core() -> None:
    assert update_settings(UpdaterSettings(), RESIZES, ServerVersion("1", "36")) == UpdateSettings()


def test_an_older_server_is_asked_for_no_more_than_it_can() -> None:
    assert not update_settings(UpdaterSettings(), Served(), ServerVersion("1", "32")).resizes
    off = UpdaterSettings(scope=ScopeSettings(feature_gates=FeatureGates(per_vpa_config=False)))
    assert not update_settings(off, RESIZES, ServerVersion("1", "36")).per_vpa_config
    assert not update_settings(UpdaterSettings(), RESIZES, ServerVersion("1", "33+")).lowers_memory_limits


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--eviction-tolerance=2", "must be at most 1"),
        ("--updater-interval=0s", "must be longer than 0s"),
        ("--admission-controller-status-lease-timeout=0s", "must be longer than 0s"),
        ("--hpa-conflict=ignore", "hold"),
        ("--freeze-config-map=trellis-freeze", "is not the namespace/name of a ConfigMap"),
        ("--evictions-per-hour=-1", "must be at least 0"),
        ("--concurrent-writes=0", "must be at least 1"),
    ],
)
def test_what_is_wrong_is_reported(flag: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["updater", flag])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
