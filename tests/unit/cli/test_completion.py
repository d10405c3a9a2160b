"""What a shell completes: commands, options, names of recommenders, and objects of a cluster."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from support.api_server.server import ModelServer
from trellis.cli import completion
from trellis.cli.completion import complete_for_kubectl
from trellis.cli.main import COMMANDS, trellis
from trellis.kube import client_factory
from trellis.kube.auth.connection import Connection


def complete(*words: str) -> list[str]:
    """What the last word may become."""
    completer = ShellComplete(trellis, {}, "trellis", "_TRELLIS_COMPLETE")
    return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ModelServer:
    """A cluster with two VPAs and a Deployment in shop, and a VPA elsewhere."""
    server = ModelServer()
    for namespace in ("shop", "bank"):
        document = {"apiVersion": "v1", "kind": "Namespace"}
        server.put(f"/api/v1/namespaces/{namespace}", document)
    for namespace, name in (("shop", "web"), ("shop", "worker"), ("bank", "ledger")):
        document = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
        server.put(f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers/{name}", document)
    server.put("/apis/apps/v1/namespaces/shop/deployments/web", {"apiVersion": "apps/v1", "kind": "Deployment"})

    connection = Connection(server="", source="the test", namespace="shop")
    monkeypatch.setattr(client_factory, "find_connection", lambda *_, **__: connection)
    monkeypatch.setattr("trellis.kube.transport.aiohttp_transport.AiohttpTransport", lambda _: server.client.transport)
    return server


def test_commands_and_options_are_completed_without_importing_commands() -> None:
    assert complete("") == list(COMMANDS)
    assert complete("exp") == ["explain"]
    assert "--output-file" in complete("explain", "--out")
    assert "--html" not in complete("simulate", "--")
    code = """if True:
        import sys
        from click.shell_completion import ShellComplete
        from trellis.cli.main import trellis
        ShellComplete(trellis, {}, "trellis", "").get_completions([], "ex")
        print([name for name in sys.modules if name.startswith("trellis.cli.commands")])
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_formats_are_completed() -> None:
    assert complete("explain", "-o", "") == ["text", "json", "yaml"]


def test_names_of_recommenders_are_completed_also_after_a_comma() -> None:
    assert complete("recommenders", "sea") == ["seasonal"]
    assert complete("recommend", "--recommender", "ad") == ["adaptive"]
    assert complete("backtest", "--recommenders", "default,sea") == ["default,seasonal"]


def test_kinds_are_completed_before_objects() -> None:
    assert complete("explain", "v") == ["vpa/"]
    assert "deployment/" in complete("explain", "")


def test_objects_are_completed_in_the_namespace_of_the_command_line(server: ModelServer) -> None:
    assert complete("explain", "vpa/") == ["vpa/web", "vpa/worker"]
    assert complete("explain", "vpa", "wo") == ["worker"]
    assert complete("explain", "deploy/w") == ["deploy/web"]
    assert complete("explain", "-n", "bank", "vpa/") == ["vpa/ledger"]
    assert sorted(complete("explain", "-n", "")) == ["bank", "shop"]
    assert complete("explain", "--dump", "file", "vpa/") == []


def test_workloads_are_completed(server: ModelServer) -> None:
    assert "deployment/" in complete("top", "")
    assert complete("top", "v") == []
    assert complete("top", "deploy/w") == ["deploy/web"]
    assert complete("top", "vpa/w") == []


def test_contexts_are_completed_from_the_kubeconfig(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: prod, context: {}}, {name: test, context: {}}]\n")
    assert complete("explain", "--kubeconfig", str(config), "--context", "p") == ["prod"]
    assert complete("recommender", "--kubeconfig", str(config), "--context", "t") == ["test"]


@pytest.mark.parametrize("failure", ["no kubeconfig", "refused", "slow"])
def test_a_cluster_that_cannot_be_asked_leaves_no_suggestion_and_no_message(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    if failure != "no kubeconfig":
        cluster = "{name: c, cluster: {server: 'http://127.0.0.1:1'}}"
        context = "{name: x, context: {cluster: c, user: u}}"
        config.write_text(f"clusters: [{cluster}]\nusers: [{{name: u}}]\ncontexts: [{context}]\ncurrent-context: x\n")
    if failure == "slow":
        monkeypatch.setattr(completion, "_TIMEOUT", 0.0)
    assert complete("explain", "--kubeconfig", str(config), "vpa/") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_is_printed(shell: str) -> None:
    result = CliRunner().invoke(trellis, ["completion", shell])
    assert result.exit_code == 0
    assert f"_TRELLIS_COMPLETE={shell}_complete" in result.stdout


def test_bash_completes_with_the_script() -> None:
    script = CliRunner().invoke(trellis, ["completion", "bash"]).stdout
    line = f"""
        trellis() {{ {sys.executable} -m trellis "$@"; }}
        export -f trellis
        {script.replace("env ", "")}
        COMP_WORDS=(trellis explain dep); COMP_CWORD=2
        compopt() {{ echo option "$1" "$2"; }}
        _trellis_completion trellis; echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout == "option -o nospace\ndeployment/\n", done.stderr


@pytest.mark.parametrize(
    ("shell", "changed"),
    [
        ("bash", "&& compopt -o nospace"),
        ("zsh", "compadd -U -V unsorted -S '' -a kinds"),
        ("fish", 'string split --max 1 "," $completion'),
    ],
)
def test_scripts_have_what_clicks_lack(shell: str, changed: str) -> None:
    assert CliRunner().invoke(trellis, ["completion", shell]).stdout.count(changed) == 1


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("trellis expl", "explain"),
        ("trellis explain deploym", "deployment/"),
        ("trellis backtest --recommenders default,ada", "default,adaptive"),
    ],
)
@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_completes_with_the_script(typed: str, completed: str) -> None:
    directory = Path(sys.executable).parent
    line = f'set -gx PATH {directory} $PATH; trellis completion fish | source; complete --do-complete "{typed}"'
    done = subprocess.run(["fish", "--no-config", "-c", line], capture_output=True, text=True, check=False)
    assert [shown.partition("\t")[0] for shown in done.stdout.splitlines()] == [completed], done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_reads_the_script() -> None:
    script = CliRunner().invoke(trellis, ["completion", "zsh"]).stdout
    done = subprocess.run(["zsh", "-f", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_namespaces_of_components_are_completed_also_after_a_comma(server: ModelServer) -> None:
    assert complete("updater", "-n", "sh") == ["shop"]
    assert complete("run", "--vpa-object-namespace", "bank,s") == ["bank,shop"]


def test_kubectl_gets_its_own_form(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-trellis", "explain", "-o", "j"])
    complete_for_kubectl()
    assert capsys.readouterr().out == "json\n:4\n"
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-trellis", "exam"])
    complete_for_kubectl()
    assert capsys.readouterr().out == f"examples\t{COMMANDS['examples'][1]}\n:4\n"
