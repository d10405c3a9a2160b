"""`trellis admission-controller` takes upstream's flags, and says what is wrong with them."""

from __future__ import annotations

import pytest

from trellis.cli.main import main
from trellis.controllers.admission.settings import AdmissionSettings
from trellis.runtime.settings.declarations import declared_settings
from trellis.runtime.settings.loader import from_flags, load_settings

# Upstream's own, with the values of its manifests and chart.
UPSTREAM = {
    "client-ca-file": "/etc/tls-certs/caCert.pem",
    "tls-cert-file": "/etc/tls-certs/serverCert.pem",
    "tls-private-key": "/etc/tls-certs/serverKey.pem",
    "reload-cert": "true",
    "tls-ciphers": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "min-tls-version": "tls1_3",
    "port": "8000",
    "address": ":8944",
    "webhook-service": "vpa-webhook",
    "register-webhook": "true",
    "register-by-url": "false",
    "webhook-address": "",
    "webhook-port": "",
    "webhook-timeout-seconds": "30",
    "webhook-failure-policy-fail": "false",
    "webhook-labels": "team:web",
    "status-lease-name": "vpa-admission-controller",
    "status-lease-namespace": "kube-system",
    "status-lease-update-interval": "10s",
    "max-allowed-cpu-boost": "2",
    "vpa-object-namespace": "",
    "ignored-vpa-object-namespaces": "kube-system",
    "feature-gates": "CPUStartupBoost=true",
    "kubeconfig": "",
    "kube-api-qps": "50",
    "kube-api-burst": "100",
    "profiling": "false",
    "v": "4",
    "stderrthreshold": "info",
}


def test_every_flag_of_upstream_is_taken() -> None:
    known = {setting.name: setting for setting in declared_settings(AdmissionSettings)}
    assert UPSTREAM.keys() <= known.keys()
    given = {known[name].parameter: value for name, value in UPSTREAM.items()}
    settings = load_settings(AdmissionSettings, from_flags(AdmissionSettings, given)).settings
    assert settings.reviews.max_allowed_cpu_boost is not None
    assert settings.reviews.max_allowed_cpu_boost.milli == 2000
    assert settings.health.address == ":8944"


@pytest.mark.parametrize("name", ["admission-controller", "admission"])
def test_both_names_are_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert "--max-allowed-cpu-boost" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--max-allowed-cpu-boost=0.5m", "must be a whole number of milli CPUs"),
        ("--max-allowed-cpu-boost=-1", "must be at least 0"),
        ("--port=70000", "must be at most 65535"),
        ("--status-lease-update-interval=0s", "must be longer than 0s"),
        ("--owner-lookup-deadline=1m", "must be at most 5s"),
    ],
)
def test_what_is_wrong_is_reported(flag: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["admission", flag])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
