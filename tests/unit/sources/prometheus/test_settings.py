"""Settings of Prometheus and their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.base.errors import InvalidInput
from trellis.runtime.settings.loader import from_environment, from_flags, load_settings, setting_values
from trellis.sources.prometheus.settings import PrometheusSettings


def loaded(**flags: str) -> PrometheusSettings:
    return load_settings(PrometheusSettings, from_flags(PrometheusSettings, flags)).settings


def test_name_and_password_come_from_upstreams_variables_too() -> None:
    environment = {"PROMETHEUS_USERNAME": "jane", "PROMETHEUS_PASSWORD": "s3cret"}
    settings = load_settings(PrometheusSettings, from_environment(PrometheusSettings, environment)).settings
    assert (settings.username, settings.password) == ("jane", "s3cret")


def test_secrets_are_not_printed() -> None:
    flags = {"password": "s3cret", "prometheus_bearer_token": "t0ken", "prometheus_headers": ("X-Key=k3y",)}
    settings = load_settings(PrometheusSettings, from_flags(PrometheusSettings, flags)).settings
    shown = " ".join(setting_values(settings).values())
    assert not [secret for secret in ("s3cret", "t0ken", "k3y") if secret in shown]


def test_headers_of_a_file_are_added_and_those_of_the_flag_win(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("X-Scope-OrgID=team a\n\nX-Other: b\n")
    settings = loaded(prometheus_headers="X-Other=c", prometheus_headers_file=str(file))
    assert settings.headers() == {"X-Scope-OrgID": "team a", "X-Other": "c"}
    file.write_text("s3cret\n")
    with pytest.raises(InvalidInput, match="must be of the form Name=value") as refused:
        settings.headers()
    assert "s3cret" not in str(refused.value)
    file.unlink()
    with pytest.raises(InvalidInput, match="--prometheus-headers-file cannot be read: No such file"):
        settings.headers()


def test_headers_are_names_and_values() -> None:
    settings = loaded(prometheus_headers="X-Scope-OrgID=team a,X-Other: b=c")
    assert settings.headers() == {"X-Scope-OrgID": "team a", "X-Other": "b=c"}


@pytest.mark.parametrize(
    ("flag", "value", "rule"),
    [
        ("prometheus_address", "prometheus:9090", "must be a URL such as"),
        ("prometheus_address", "http://prometheus:371571", "Port out of range"),
        ("prometheus_address", "http://[prometheus", "must be a URL such as"),
        ("prometheus_address", "http://prometheus/?query=up", "neither query nor fragment"),
        ("history_length", "8 days", "a duration of Prometheus, such as 8d"),
        ("history_resolution", "0s", "longer than 0s"),
        ("history_length", "30m", "must not be shorter than --history-resolution"),
        ("history_cpu_metric", 'usage{job="x"}', "the name of a metric, without labels"),
        ("container_name_label", "k8s.io/name", "the name of a label"),
        ("prometheus_query_timeout", "0s", "at least 1s"),
        ("prometheus_headers", "X-Scope-OrgID", "of the form Name=value"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_at_start(flag: str, value: str, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        loaded(**{flag: value})


def test_only_all_three_credentials_together_are_refused_as_upstream_does() -> None:
    both = {"prometheus_bearer_token": "t", "prometheus_bearer_token_file": "/f"}
    assert loaded(**both).prometheus_bearer_token_file
    with pytest.raises(InvalidInput, match="mutually exclusive"):
        loaded(**both, username="jane")
