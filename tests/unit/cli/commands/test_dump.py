"""`trellis dump` as a user runs it, and what other commands read of it."""

from __future__ import annotations

import asyncio
import errno
import gzip
import io
import json
import os
import re
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from support.api_server.server import ModelServer
from support.builders.dumps import HASH, NOW, SECRET, collect_dump, example, hide, shop
from trellis.base.errors import PrometheusUnreachable, Unreachable
from trellis.base.json_lines import HEADER, read_lines
from trellis.cli import prometheus_series
from trellis.cli.commands import dump
from trellis.cli.main import trellis
from trellis.cli.prometheus_series import PrometheusOptions
from trellis.core.cluster.state import ClusterState
from trellis.kube.client import Client
from trellis.runtime.recorder import read_recording
from trellis.sources.cluster.anonymization import Anonymizer
from trellis.sources.series.series import ContainerIdentity, Series
from trellis.sources.series.tables import LoadedSeries

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def server() -> ModelServer:
    return shop()


@pytest.fixture
def run(server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield server.client, "shop"

    monkeypatch.setattr(dump, "open_chosen_client", connected)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(trellis, ["dump", *arguments])


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_a_dump_is_one_file_for_its_owner_that_zcat_reads(run: Callable[..., Result]) -> None:
    result = run("-o", "dump.jsonl.gz")
    assert result.exit_code == 0, result.output
    assert files() == ["dump.jsonl.gz"]
    assert stat.S_IMODE(Path("dump.jsonl.gz").stat().st_mode) == 0o600
    lines = gzip.decompress(Path("dump.jsonl.gz").read_bytes()).splitlines()
    assert [json.loads(line)["kind"] for line in (lines[0], lines[1], lines[-1])] == ["header", "about", "end"]
    assert "Pod 3" in result.stderr
    assert "asking the cluster: 100 %" in result.stderr
    assert "wrote dump.jsonl.gz, " in result.stderr
    assert result.stdout == ""


def test_the_default_file_name_has_the_time(run: Callable[..., Result]) -> None:
    assert run("--quiet").exit_code == 0
    (name,) = files()
    assert name.startswith("trellis-dump-")
    assert name.endswith(".jsonl.gz")


def test_what_could_not_be_read_is_named_at_the_end(run: Callable[..., Result], server: ModelServer) -> None:
    hide(server, "office")
    result = run("--quiet", "-o", "dump.jsonl")
    assert result.exit_code == 0
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("  office:")]
    assert "Pod, " in line
    assert line.endswith("may not be read")
    assert "\nleft out:\n" in result.stderr


def test_patterns_and_anonymous_go_together(run: Callable[..., Result]) -> None:
    result = run("--quiet", "-n", "sh*", "--anonymous", "-o", "dump.jsonl")
    assert result.exit_code == 0
    assert b"web" not in Path("dump.jsonl").read_bytes()
    state = ClusterState.from_dump(read_recording(Path("dump.jsonl")))
    assert state.about.anonymous
    assert len(state.pods) == 2


def test_no_two_dumps_use_the_same_names(run: Callable[..., Result]) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        run("--quiet", "--anonymous", "-o", name)
    one, other = (
        next(iter(ClusterState.from_dump(read_recording(Path(name))).vpas)) for name in ("a.jsonl", "b.jsonl")
    )
    assert one.metadata.name != other.metadata.name


def test_an_unreachable_server_leaves_no_file(run: Callable[..., Result], server: ModelServer) -> None:
    server.faults.append(Unreachable("no route to host"))
    result = run("--quiet", "-o", "dump.jsonl.gz")
    assert isinstance(result.exception, Unreachable)
    assert files() == []


def test_ctrl_c_leaves_the_previous_file(run: Callable[..., Result], server: ModelServer) -> None:
    Path("dump.jsonl.gz").write_text("yesterday's")

    def press(request: Any) -> None:
        if request.path.endswith("/pods"):
            raise KeyboardInterrupt

    server.before = press
    result = run("--quiet", "-o", "dump.jsonl.gz")
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert files() == ["dump.jsonl.gz"]
    assert Path("dump.jsonl.gz").read_text() == "yesterday's"


def test_an_unwritable_path_is_refused_before_any_query(run: Callable[..., Result], server: ModelServer) -> None:
    result = run("-o", "nowhere/dump.jsonl.gz")
    assert result.exit_code == 2
    assert "there is no directory nowhere" in result.stderr
    assert not server.requests


def test_a_pipe_or_device_is_written_to_in_place(run: Callable[..., Result], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run("--quiet", "--output", "pipe").exit_code == 0
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert os.read(reader, 1 << 20).startswith(b"{")
    os.close(reader)
    assert files() == ["pipe"]


def test_of_a_link_the_file_is_written_that_it_leads_to(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "latest").symlink_to("kept/dump.jsonl")
    assert run("--quiet", "--output", "latest").exit_code == 0
    assert (tmp_path / "latest").is_symlink()
    assert files() == ["kept", "latest"]
    assert (tmp_path / "kept" / "dump.jsonl").read_bytes().startswith(b"{")


def test_a_dash_is_standard_output(run: Callable[..., Result]) -> None:
    result = run("--quiet", "--output", "-")
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()]
    assert "wrote" not in result.stderr
    assert files() == []


def test_a_full_disk_is_one_line_and_no_request_follows(
    run: Callable[..., Result], server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any, /) -> int:
            if b"Node" in data:
                raise OSError(errno.ENOSPC, "No space left on device")
            return len(data)

    @contextmanager
    def full(_path: Path) -> Iterator[io.BytesIO]:
        yield Full()

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[tuple[Client, str]]:
        try:
            yield server.client, "shop"
        finally:
            asking.extend(task for task in asyncio.all_tasks() if task is not asyncio.current_task())

    asking: list[asyncio.Task[Any]] = []
    monkeypatch.setattr(dump, "open_atomically", full)
    monkeypatch.setattr(dump, "open_chosen_client", connected)
    result = run("--quiet", "-o", "dump.jsonl")
    assert (result.exit_code, result.stderr) == (2, "trellis: dump.jsonl: No space left on device\n")
    assert asking == []


def test_usage_of_the_last_days_comes_from_prometheus(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def read_series(whom: PrometheusOptions, namespaces: Any, *, quiet: bool) -> LoadedSeries:
        asked.append((whom, namespaces, quiet))
        times = np.array([NOW - 60, NOW])
        identity = ContainerIdentity(namespace="shop", pod=f"web-{HASH}-x2x9z", container="app")
        series = Series("web", times, np.array([0.1, np.nan]), times, identity=identity)
        return LoadedSeries([series], [], [])

    monkeypatch.setattr(prometheus_series, "read_prometheus_series", read_series)
    result = run("--quiet", "-n", "shop", "-o", "d.jsonl", "--prometheus-url", "http://p", "--history", "14d")
    assert result.exit_code == 0, result.output
    assert asked == [(PrometheusOptions("http://p", "14d", "5m"), ("shop",), True)]
    (history,) = ClusterState.from_dump(read_recording(Path("d.jsonl"))).history
    assert (history.namespace, history.pod, history.container) == ("shop", f"web-{HASH}-x2x9z", "app")
    assert history.cpu[0] == 0.1
    assert np.isnan(history.cpu[1])


def test_without_prometheus_the_dump_is_written_without_history(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> LoadedSeries:
        raise PrometheusUnreachable("no such host")

    monkeypatch.setattr(prometheus_series, "read_prometheus_series", refuse)
    result = run("--quiet", "-o", "d.jsonl", "--prometheus-url", "http://p")
    assert result.exit_code == 0
    assert "  everywhere: history could not be read: no such host" in result.stderr
    assert len(ClusterState.from_dump(read_recording(Path("d.jsonl"))).pods) == 3


def explained(lines: list[bytes], path: Path) -> Any:
    """What is said of the only VPA of a dump."""
    path.write_bytes(b"".join(lines))
    (vpa,) = ClusterState.from_dump(lines).vpas
    name = f"{vpa.metadata.namespace}/{vpa.metadata.name}"
    result = CliRunner().invoke(trellis, ["explain", "vpa", name, "--dump", str(path), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def figures(value: Any) -> Any:
    """Numbers, quantities and codes, without names and sentences."""
    match value:
        case dict():
            return [figures(item) for item in value.values()]
        case list():
            return [figures(item) for item in value]
        case str():
            return value if re.fullmatch(r"[0-9.]+(m|[KMG]i)?|[A-Z][A-Za-z]+", value) else ""
        case _:
            return value


def test_a_dump_without_names_explains_the_same(tmp_path: Path) -> None:
    plain = explained(collect_dump(shop(), "*"), tmp_path / "plain.jsonl")
    masked = explained(collect_dump(shop(), "*", mask=Anonymizer(b"0")), tmp_path / "masked.jsonl")
    assert plain != masked
    assert "HpaConflict" in json.dumps(figures(plain))
    assert figures(plain) == figures(masked)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of: a SCENARIO, a dump with --dump, a recording with --replay"),
        (["s.yaml", "--dump", "d"], "give one of: a SCENARIO, a dump with --dump, a recording with --replay"),
        (["s.yaml", "--recommenders", "default"], "--recommenders needs --dump"),
    ],
)
def test_scenario_dump_and_replay_exclude_one_another(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(trellis, ["simulate", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_example_dump_matches_the_current_format() -> None:
    stored = list(read_recording(ROOT / "examples" / "dump" / "shop.jsonl"))
    kinds = [kind for kind, _ in read_lines(stored)]
    assert kinds[0] == HEADER
    # The header names the release that wrote it.
    assert stored[1:] == example()[1:]
    assert SECRET.encode() not in b"".join(stored)
