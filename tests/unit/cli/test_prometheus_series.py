"""How commands ask Prometheus for usage: by the labels of most clusters, and with settings from three places."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from trellis.base.errors import InvalidSeries, PrometheusUnreachable
from trellis.cli import prometheus_series
from trellis.cli.prometheus_series import PrometheusOptions, read_prometheus_history, read_prometheus_series
from trellis.sources.series.tables import LoadedSeries


def test_series_are_asked_for_by_the_labels_that_most_clusters_have() -> None:
    settings = PrometheusOptions("http://p", "14d", "5m").load_settings()
    assert (settings.container_pod_name_label, settings.container_name_label) == ("pod", "container")
    assert settings.prometheus_cadvisor_job_name == ""


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "prometheus.yaml"
    config.write_text("container-pod-name-label: pod_name\ncontainer-name-label: name\nhistory-length: 3d\n")
    monkeypatch.setenv("TRELLIS_CONTAINER_NAME_LABEL", "box")
    settings = PrometheusOptions("http://p", "14d", "5m", config).load_settings()
    assert (settings.container_pod_name_label, settings.container_name_label) == ("pod_name", "box")
    assert settings.history_length == "14d"


def test_series_that_prometheus_does_not_have_are_missing_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, **__: object) -> LoadedSeries:
        raise InvalidSeries("http://p", "has no containers")

    monkeypatch.setattr(prometheus_series, "read_prometheus_series", nothing)
    history, (missing,) = read_prometheus_history(PrometheusOptions("http://p", "1d", "5m"), ["shop"], quiet=True)
    assert history == []
    assert str(missing) == 'history: could not be read: "http://p": has no containers'


def test_an_unreachable_prometheus_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(_: float) -> None:
        raise AssertionError("somebody sits in front of the command and waits")

    monkeypatch.setattr(asyncio, "sleep", waits)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(PrometheusUnreachable, match=r"Prometheus at .* cannot be reached: Connection refused"):
        read_prometheus_series(PrometheusOptions(url, "1d", "5m"), ["shop"], quiet=True)
