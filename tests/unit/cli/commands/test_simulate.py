"""`trellis simulate` as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import FORMAT_VERSION
from trellis.cli.main import trellis

SCENARIO = """\
apiVersion: sim.trellis.x-k8s.io/v1alpha1
kind: Scenario
metadata: {name: tiny}
spec:
  duration: 30m
  step: 5m
  nodes: [{name: node, count: 1, cpu: "4", memory: 8Gi}]
  workloads:
    - name: web
      namespace: shop
      replicas: 2
      containers:
        - {name: app, requests: {cpu: "1", memory: 1Gi}, usage: {cpu: {steady: 100m}, memory: {steady: 200Mi}}}
  policies:
    - {name: vpas, forEach: [{spec: {updatePolicy: {updateMode: InPlaceOrRecreate}}}]}
  variants:
    - {name: fixed, title: As written}
    - {name: sized, policies: [vpas]}
"""
# Long enough to be stopped in the middle of it on any machine.
ENDLESS = SCENARIO.replace("duration: 30m", "duration: 3650d")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trellis, ["simulate", "--processes", "1", *arguments])


@pytest.mark.usefixtures("folder")
def test_a_table_compares_the_variants_and_progress_goes_elsewhere() -> None:
    result = run("tiny.yaml")
    assert result.exit_code == 0, result.output
    assert "CPU requested, cores" in result.stdout
    assert "fixed: 100 %" in result.stderr
    assert "100 %" not in result.stdout


@pytest.mark.usefixtures("folder")
def test_quiet_shows_nothing_but_the_table() -> None:
    assert run("tiny.yaml", "--quiet").stderr == ""


def test_every_form_of_the_result_is_written_where_it_is_asked_for(folder: Path) -> None:
    result = run("tiny.yaml", "--html", "r.html", "--json", "r.json", "--csv", "r.csv")
    assert result.exit_code == 0, result.output
    assert (folder / "r.html").read_text().lower().startswith("<!doctype html>")
    assert [variant["name"] for variant in json.loads((folder / "r.json").read_bytes())["variants"]] == [
        "fixed",
        "sized",
    ]
    rows = list(csv.DictReader((folder / "r.csv").read_text().splitlines()))
    assert [(row["variant"], row["name"]) for row in rows] == [("fixed", "web"), ("sized", "web")]


def test_the_same_seed_gives_the_same_bytes(folder: Path) -> None:
    for name in ("a.json", "b.json"):
        assert run("tiny.yaml", "--json", name, "--seed", "3").exit_code == 0
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()
    assert json.loads((folder / "a.json").read_bytes())["seed"] == 3


@pytest.mark.usefixtures("folder")
def test_json_on_standard_output_is_printed_alone() -> None:
    assert json.loads(run("tiny.yaml", "--json", "-").stdout)["kind"] == "SimulationResult"


@pytest.mark.usefixtures("folder")
def test_variants_can_be_chosen_and_a_misspelt_one_is_named() -> None:
    chosen = json.loads(run("tiny.yaml", "--only", "sized", "--json", "-").stdout)
    assert [variant["name"] for variant in chosen["variants"]] == ["sized"]
    with pytest.raises(Exception, match='did you mean "sized"'):
        CliRunner().invoke(trellis, ["simulate", "tiny.yaml", "--only", "sizd"], catch_exceptions=False)


def test_a_typo_is_reported_with_file_line_and_the_nearest_name(folder: Path) -> None:
    (folder / "typo.yaml").write_text(SCENARIO.replace("  step: 5m", "  stepp: 5m"))
    result = run("typo.yaml")
    assert result.exit_code == 1
    line, source, _caret = result.stderr.splitlines()
    assert source.endswith("|   stepp: 5m")
    assert line.startswith("typo.yaml:6:3: error: spec.stepp:")
    assert 'did you mean "step"?' in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of: a SCENARIO, a dump with --dump, a recording with --replay"),
        (["nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["tiny.yaml", "--replay", "x"], "give one of: a SCENARIO, a dump with --dump, a recording with --replay"),
        (["tiny.yaml", "--html", "no/r.html"], "--html no/r.html: there is no directory no"),
        (["tiny.yaml", "--csv", "."], "--csv .: is a directory; name a file"),
        (["tiny.yaml", "--csv", "-", "--json", "-"], "--json and --csv cannot both go to standard output"),
    ],
)
def test_invalid_options_are_reported_before_the_simulation(folder: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(folder.iterdir()) == [folder / "tiny.yaml"]


def test_a_file_that_is_no_recording_is_refused_by_name(folder: Path) -> None:
    (folder / "usage.csv").write_text("timestamp,cpu_cores\n")
    for name, message in (
        ("usage.csv", "line 1 is not valid in a recording"),
        ("nowhere.gz", "No such file or directory"),
    ):
        with pytest.raises(InvalidRecording, match=f'"{name}": .*{message}'):
            CliRunner().invoke(trellis, ["simulate", "--replay", name], catch_exceptions=False)


def test_a_recording_without_a_decision_is_no_replay_that_agrees(folder: Path) -> None:
    lines = [
        {"kind": "header", "data": {"format": FORMAT_VERSION, "component": "updater"}},
        {"kind": "start", "data": {"settings": {}, "has_headroom": False}},
    ]
    (folder / "short.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    result = run("--replay", "short.jsonl")
    assert result.exit_code == 2
    assert "short.jsonl: the recording has no decision to compare" in result.stderr
    document = json.loads(run("--replay", "short.jsonl", "-o", "json").stdout)
    assert (document["component"], document["decisions"], document["differences"]) == ("updater", 0, [])
    assert "component: updater" in run("--replay", "short.jsonl", "-o", "yaml").stdout


def test_ctrl_c_leaves_what_there_is_so_far_marked_as_partial(folder: Path) -> None:
    (folder / "endless.yaml").write_text(ENDLESS)
    command = [sys.executable, "-m", "trellis", "simulate", "endless.yaml", "--processes", "1", "--json", "r.json"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        # The first line comes when the scenario is read; Ctrl-C is heard from then on.
        assert process.stderr.readline().startswith("tiny: 1 workload, 3,650 days, 2 variants")
        os.kill(process.pid, signal.SIGINT)
        output = process.stderr.read()
    assert process.returncode == 130
    assert "stopping; the results so far follow" in output
    result = json.loads((folder / "r.json").read_bytes())
    assert result["partial"] is True
