"""The command line as a whole."""

from __future__ import annotations

import errno
import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from trellis import __version__
from trellis.api.registry import KINDS
from trellis.base.errors import InvalidQuantity
from trellis.cli.main import COMMANDS, SECTIONS, main, trellis


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


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_into_a_terminal_of_80_columns(name: str) -> None:
    result = CliRunner().invoke(trellis, [name, "--help"], terminal_width=80)
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if len(line) > 80] == []


def test_version_is_the_packages() -> None:
    assert CliRunner().invoke(trellis, ["--version"]).output == f"trellis {__version__}\n"


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(trellis, ["chekc"])
    assert result.exit_code == 2
    assert 'there is no command "chekc" (did you mean "check"?)' in result.output
    assert CliRunner().invoke(trellis, ["frobnicate"]).exit_code == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("get", "`kubectl get vpa,hvpa,buffers`"),
        ("describe", "`trellis explain vpa/web`"),
        ("frobnicate", "the commands are simulate, backtest, check"),
    ],
)
def test_a_command_of_other_tools_leads_to_ours_or_to_the_list(name: str, message: str) -> None:
    refused = CliRunner().invoke(trellis, [name])
    assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr


def test_help_is_also_a_word() -> None:
    for words, options in ((["help"], ["--help"]), (["help", "explain"], ["explain", "--help"])):
        assert CliRunner().invoke(trellis, words).stdout == CliRunner().invoke(trellis, options).stdout


def test_an_option_before_the_command_leads_behind_it() -> None:
    refused = CliRunner().invoke(trellis, ["-n", "shop", "explain", "vpa/web"])
    assert refused.exit_code == 2
    assert 'there is no option "-n" before the command; options of a command follow it' in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["explain", "vpa/web", "--namespce", "shop"], "--namespace"),
        (["dump", "--anonymos"], "--anonymous"),
        (["explain", "vpa/web", "-dump=x"], "--dump"),
        (["recommender", "-recommender-name=x"], "--recommender-name"),
    ],
)
def test_a_misspelled_option_leads_to_the_nearest(arguments: list[str], nearest: str) -> None:
    refused = CliRunner().invoke(trellis, arguments)
    assert (refused.exit_code, nearest in refused.stderr) == (2, True), refused.stderr


def test_the_help_of_trellis_needs_no_second_line_for_a_command() -> None:
    shown = CliRunner().invoke(trellis, ["--help"], terminal_width=80).stdout
    for name, (_, summary) in COMMANDS.items():
        assert any(line.split() == [name, *summary.split()] for line in shown.splitlines()), name


def test_defaults_and_flags_stay_whole_in_help() -> None:
    shown = CliRunner().invoke(trellis, ["recommend", "--help"], terminal_width=80).stdout
    assert "[default: default]" in shown
    assert "X-Scope-OrgID" in shown
    assert "\u00a0" not in shown
    assert "\u2011" not in shown


@pytest.mark.parametrize(
    "name", ["recommend", "explain", "dump", "version", "crds", "check", "status", "doctor", "top"]
)
def test_commands_that_read_a_cluster_choose_it_as_kubectl_does(name: str) -> None:
    shown = CliRunner().invoke(trellis, [name, "--help"]).stdout
    for option in ("--kubeconfig FILE", "--context NAME", "-n, --namespace"):
        assert option in shown
    if name not in ("explain", "check", "doctor"):  # about one object, about files, and about one installation
        assert "-A, --all-namespaces" in shown
        both = CliRunner().invoke(trellis, [name, "-A", "-n", "shop"])
        assert (both.exit_code, "give one of the two" in both.stderr) == (2, True)


# A server of node groups works for all namespaces.
@pytest.mark.parametrize("name", [name for name in SECTIONS["Run in a cluster"] if name != "node-provider-server"])
def test_components_choose_cluster_and_namespaces_as_kubectl_does(name: str) -> None:
    shown = CliRunner().invoke(trellis, [name, "--help-all"]).stdout
    for option in ("--kubeconfig ", "--context ", "-n, --vpa-object-namespace ", "-A, --all-namespaces"):
        assert option in shown
    both = CliRunner().invoke(trellis, [name, "-A", "-n", "shop"])
    assert (both.exit_code, "give one of the two" in both.stderr) == (2, True)


def test_a_trellis_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(**_: object) -> None:
        raise InvalidQuantity("1Kg", "must be a quantity")

    monkeypatch.setattr(importlib.import_module("trellis.cli.commands.crds").command, "callback", refuse)
    with pytest.raises(SystemExit) as stopped:
        main(["crds"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == 'trellis: "1Kg": must be a quantity\n'


def test_a_file_that_may_not_be_touched_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "locked/report.html")

    monkeypatch.setattr(importlib.import_module("trellis.cli.commands.crds").command, "callback", refuse)
    with pytest.raises(SystemExit) as stopped:
        main(["crds"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "trellis: locked/report.html: Permission denied\n"


def test_a_command_that_is_stopped_says_so_and_never_shows_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("trellis.cli.commands.crds").command, "callback", stop)
    result = CliRunner().invoke(trellis, ["crds"])
    assert (result.exit_code, result.stderr) == (130, "\ntrellis: stopped\n")


def test_ctrl_c_during_the_import_of_a_command_prints_nothing() -> None:
    pressed = """if True:
        import os, signal, sys
        from trellis.__main__ import main

        class Pressing:
            def find_spec(self, name, path=None, target=None):
                if name == "click":
                    os.kill(os.getpid(), signal.SIGINT)

        # Also where whoever runs the tests has Ctrl-C ignored, as a shell does for what runs in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.meta_path.insert(0, Pressing())
        sys.argv = ["trellis", "--version"]
        main()
    """
    stopped = subprocess.run([sys.executable, "-c", pressed], capture_output=True, text=True, check=False)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", "")


def test_ctrl_c_before_the_command_is_resolved_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(trellis, "parse_args", stop)
    result = CliRunner().invoke(trellis, ["crds"])
    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize("arguments", [["--help"], ["crds"], ["crds", "--help"]], ids=" ".join)
def test_output_to_a_full_disk_is_one_line_about_it(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "trellis", *arguments]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.stderr == "trellis: the output could not be written: No space left on device\n"
    assert ended.returncode == 2


def test_the_installed_command_and_the_module_are_one() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["trellis"] == project["scripts"]["kubectl-trellis"] == "trellis.__main__:main"
    shown = subprocess.run([sys.executable, "-m", "trellis", "--version"], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stdout) == (0, f"trellis {__version__}\n")


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
