"""`-` and pipes in every command that reads a file, and the copies that are made of them."""

from __future__ import annotations

import gzip
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trellis.base.errors import InvalidRecording, InvalidSeries
from trellis.cli.input_files import open_inputs
from trellis.cli.main import trellis

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
USAGE = EXAMPLES / "backtest/usage.csv"
BACKTEST = ("--quiet", "--recommenders", "default", "--processes", "1")


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of temporary files, which every test leaves empty."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.chdir(tmp_path)
    yield directory
    assert list(directory.iterdir()) == []


def run(*arguments: str, stdin: bytes) -> Result:
    return CliRunner().invoke(trellis, list(arguments), input=io.BytesIO(stdin))


@pytest.mark.parametrize("compressed", [False, True])
def test_usage_is_read_from_standard_input(compressed: bool) -> None:
    usage = gzip.compress(USAGE.read_bytes()) if compressed else USAGE.read_bytes()
    for command in (("recommend", "--quiet"), ("backtest", *BACKTEST)):
        piped = run(*command, "-o", "csv", "-", stdin=usage)
        named = run(*command, "-o", "csv", str(USAGE), stdin=b"")
        assert (piped.exit_code, piped.stdout) == (0, named.stdout), piped.output


def test_parquet_is_read_from_standard_input(tmp_path: Path) -> None:
    parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.csv")
    parquet.write_table(table.read_csv(USAGE), tmp_path / "usage.parquet")
    piped = run("backtest", "-", *BACKTEST, "-o", "csv", stdin=(tmp_path / "usage.parquet").read_bytes())
    assert piped.exit_code == 0, piped.output
    assert "shop/web,default," in piped.stdout


def test_a_dump_is_read_from_standard_input() -> None:
    dump = (EXAMPLES / "explain/shop.jsonl").read_bytes()
    explained = run("explain", "vpa/web", "--dump", "-", stdin=gzip.compress(dump))
    assert explained.stdout.startswith("VerticalPodAutoscaler shop/web")
    pools = (EXAMPLES / "explain/pools.jsonl").read_bytes()
    assert run("explain", "node/small-1", "--dump", "-", stdin=pools).stdout.startswith("Node small-1")
    cluster = (EXAMPLES / "dump/shop.jsonl").read_bytes()
    simulated = run("simulate", "--dump", "-", "--quiet", "--processes", "1", stdin=cluster)
    assert simulated.exit_code == 0, simulated.output


def test_a_scenario_is_read_from_standard_input_with_its_files_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(EXAMPLES / "simulate")
    scenario = Path("trace.yaml").read_bytes()
    piped = run("simulate", "-", "--quiet", "--processes", "1", "-o", "csv", stdin=scenario)
    named = run("simulate", "trace.yaml", "--quiet", "--processes", "1", "-o", "csv", stdin=b"")
    assert (piped.exit_code, piped.stdout) == (0, named.stdout), piped.output


def test_findings_about_a_scenario_name_standard_input() -> None:
    refused = run("simulate", "-", stdin=b"kind: Deployment\napiVersion: apps/v1\nmetadata: {name: web}\n")
    assert refused.exit_code == 1
    assert "<stdin>:1:1: error: the file contains no Scenario" in refused.stderr


def test_a_recording_is_read_from_standard_input() -> None:
    with pytest.raises(InvalidRecording, match=r'^"<stdin>": "hello": line 1 is not valid in a recording'):
        CliRunner().invoke(trellis, ["simulate", "--replay", "-"], input=b"hello\n", catch_exceptions=False)


def test_manifests_are_read_from_standard_input() -> None:
    checked = run("check", "-", stdin=b"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n")
    assert checked.exit_code == 1
    assert "<stdin>:1" in checked.stdout


def test_messages_name_standard_input_and_not_the_copy() -> None:
    refused = run("backtest", "-", stdin=b"a,b\n1,2\n")
    assert refused.exit_code == 2
    assert refused.stderr == 'trellis: "<stdin>": has no column `timestamp`; its columns are a, b\n'
    partial = run("recommend", "-", stdin=b"a,b\n1,2\n")
    assert "<stdin>" in partial.stderr
    assert "temporary" not in partial.stderr


def test_a_named_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "usage"
    os.mkfifo(pipe)
    writing = threading.Thread(target=lambda: pipe.write_bytes(USAGE.read_bytes()))
    writing.start()
    piped = run("backtest", str(pipe), *BACKTEST, "-o", "csv", stdin=b"")
    writing.join()
    assert piped.exit_code == 0, piped.output
    assert "shop/web,default," in piped.stdout


def test_standard_input_is_read_only_once() -> None:
    refused = run("backtest", "-", "-", stdin=USAGE.read_bytes())
    assert (refused.exit_code, "standard input (-) can be read only once" in refused.stderr) == (2, True)


def test_regular_files_are_read_in_place() -> None:
    with open_inputs([str(USAGE), str(EXAMPLES)]) as (paths, restore_names):
        assert paths == [str(USAGE), str(EXAMPLES)]
        assert restore_names("a text") == "a text"


def test_an_error_leaves_no_copy(monkeypatch: pytest.MonkeyPatch, copies: Path) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n")))
    with pytest.raises(InvalidSeries, match=r'^"<stdin>": is odd'), open_inputs(["-"]) as ([path], _):  # noqa: PT012
        assert Path(path).is_relative_to(copies)
        raise InvalidSeries(path, "is odd")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n")))
    with pytest.raises(KeyboardInterrupt), open_inputs(["-"]):
        raise KeyboardInterrupt
    assert list(copies.iterdir()) == []


def test_a_process_that_is_terminated_leaves_no_copy(copies: Path) -> None:
    """The process reads standard input until it ends: it is terminated while it waits for the rest."""
    code = "import sys, tempfile; tempfile.tempdir = sys.argv.pop(1); from trellis.__main__ import main; main()"
    command = [sys.executable, "-c", code, str(copies), "backtest", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"timestamp,cpu_cores\n" * 100_000)
        process.stdin.flush()  # more than a pipe holds, so that the copy has begun
        assert list(copies.iterdir())
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    assert process.returncode == 143


@pytest.mark.parametrize("command", ["backtest", "recommend", "check", "simulate", "explain"])
def test_the_help_says_that_standard_input_is_read(command: str) -> None:
    assert "standard input" in " ".join(CliRunner().invoke(trellis, [command, "--help"]).stdout.split())
