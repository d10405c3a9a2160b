"""The command line as a whole."""

from __future__ import annotations

import importlib
import json

import pytest
import yaml
from click.testing import CliRunner

from trellis import __version__
from trellis.api.kinds import KINDS
from trellis.base.errors import InvalidQuantity
from trellis.cli.main import COMMANDS, main, trellis


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_commands_own_help_says(name: str) -> None:
    module, summary = COMMANDS[name]
    command = importlib.import_module(module).command
    assert command.name == name
    assert command.get_short_help_str(limit=200) == summary


def test_help_lists_every_command_and_needs_no_argument() -> None:
    result = CliRunner().invoke(trellis, ["--help"])
    assert result.exit_code == 0
    for name, (_, summary) in COMMANDS.items():
        assert f"{name} " in result.output
        assert summary in " ".join(result.output.split())


def test_version_is_the_packages() -> None:
    assert CliRunner().invoke(trellis, ["--version"]).output == f"trellis {__version__}\n"


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(trellis, ["chekc"])
    assert result.exit_code == 2
    assert 'there is no command "chekc" (did you mean "check"?)' in result.output
    assert CliRunner().invoke(trellis, ["frobnicate"]).exit_code == 2


def test_an_error_of_ours_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(**_: object) -> None:
        raise InvalidQuantity("1Kg", "must be a quantity")

    monkeypatch.setattr(importlib.import_module("trellis.cli.crds").command, "callback", refuse)
    with pytest.raises(SystemExit) as stopped:
        main(["crds"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == 'trellis: "1Kg": must be a quantity\n'


def test_a_command_that_is_stopped_says_so_and_never_shows_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("trellis.cli.crds").command, "callback", stop)
    result = CliRunner().invoke(trellis, ["crds"])
    assert (result.exit_code, result.stderr) == (130, "\ntrellis: stopped\n")


def test_crds_prints_one_document_per_kind() -> None:
    result = CliRunner().invoke(trellis, ["crds"])
    documents = list(yaml.safe_load_all(result.output))
    assert [document["spec"]["names"]["kind"] for document in documents] == [kind.name for kind in KINDS]


def test_crds_prints_the_kinds_asked_for_by_any_name() -> None:
    result = CliRunner().invoke(trellis, ["crds", "-o", "json", "hvpa", "Buffers"])
    items = json.loads(result.output)["items"]
    assert [item["spec"]["names"]["kind"] for item in items] == ["Hvpa", "Buffer"]


def test_crds_of_an_unknown_kind_are_refused_with_the_ones_there_are() -> None:
    result = CliRunner().invoke(trellis, ["crds", "pod"])
    assert result.exit_code == 2
    assert 'there is no kind "pod"; there are VerticalPodAutoscaler' in result.output
