"""`trellis examples`: listed, and copied without overwriting what a user changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from trellis.cli.commands.examples import TOPICS
from trellis.cli.main import trellis

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trellis, list(arguments))


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def files(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def test_every_directory_of_examples_is_listed_with_a_line() -> None:
    assert TOPICS.keys() == {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    listed = run("examples").stdout
    for name, topic in TOPICS.items():
        assert f"{name} " in listed
        assert topic in listed


def test_all_are_copied_and_can_be_used() -> None:
    copied = run("examples", "--copy-to", "examples")
    assert (copied.exit_code, "files to examples" in copied.stderr) == (0, True), copied.output
    assert files(Path("examples")) == files(EXAMPLES)
    assert run("check", "examples/web").exit_code == 0


def test_some_are_copied_with_the_schema_that_they_name() -> None:
    assert run("examples", "web", "hvpa", "--copy-to", "mine").exit_code == 0
    assert {path.name for path in Path("mine").iterdir()} == {"web", "hvpa", "trellis.schema.json"}


def test_the_files_of_one_are_listed() -> None:
    assert run("examples", "web").stdout == "web/autoscaling.yaml\nweb/workload.yaml\n"


def test_the_list_is_data_too() -> None:
    every = json.loads(run("examples", "-o", "json").stdout)["examples"]
    assert {example["name"] for example in every} == TOPICS.keys()
    [web] = yaml.safe_load(run("examples", "web", "-o", "yaml").stdout)["examples"]
    assert web == {"name": "web", "about": TOPICS["web"], "files": ["web/autoscaling.yaml", "web/workload.yaml"]}


def test_a_changed_file_is_overwritten_only_by_force() -> None:
    assert run("examples", "web", "--copy-to", ".").exit_code == 0
    assert run("examples", "web", "--copy-to", ".").exit_code == 0  # the same again
    Path("web/workload.yaml").write_text("mine")
    Path("web/autoscaling.yaml").unlink()
    refused = run("examples", "web", "--copy-to", ".")
    assert (refused.exit_code, "exists and differs from the example" in refused.stderr) == (2, True)
    assert not Path("web/autoscaling.yaml").exists()
    assert run("examples", "web", "--copy-to", ".", "--force").exit_code == 0
    assert Path("web/workload.yaml").read_bytes() == (EXAMPLES / "web/workload.yaml").read_bytes()


def test_an_unknown_example_is_refused_with_the_nearest() -> None:
    refused = run("examples", "simulat")
    assert (refused.exit_code, 'did you mean "simulate"?' in refused.stderr) == (2, True)


def test_every_named_schema_lies_where_the_example_says() -> None:
    named = [path for path in EXAMPLES.rglob("*.yaml") if "yaml-language-server" in path.read_text()]
    assert len(named) > 10
    for path in named:
        comment = path.read_text().splitlines()[0]
        assert (path.parent / comment.partition("$schema=")[2]).resolve() == EXAMPLES / "trellis.schema.json"
