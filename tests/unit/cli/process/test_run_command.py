"""`trellis run`: a short help, a full one, and flags that are never mistaken for one another."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections import Counter
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest
from click.testing import CliRunner

from trellis.cli.commands.components import run
from trellis.cli.main import trellis
from trellis.cli.process.catalog import CATALOG, import_all_settings
from trellis.cli.process.command import list_own_settings
from trellis.cli.process.sources import configure_process
from trellis.runtime.manager.configuration.reload import RunningConfiguration
from trellis.runtime.manager.settings import ProcessSettings
from trellis.runtime.settings.declarations import component_settings, declared_settings
from trellis.runtime.settings.groups import COMPATIBILITY, MOST_USED

TYPES = import_all_settings()


def show(*arguments: str, width: int = 80) -> str:
    result = CliRunner().invoke(trellis, ["run", *arguments], terminal_width=width, max_content_width=width)
    assert result.exit_code == 0, result.output
    return result.output


def flags_in(text: str) -> list[str]:
    options = text.partition(f"{MOST_USED}:")[2].partition(f"{COMPATIBILITY}:")
    listed = options[0] + options[2].partition("\n\n")[2]
    return [flag.replace("[no-]", "") for flag in re.findall(r"^  (?:-\w, )?(--\S+)", listed, re.MULTILINE)]


def test_help_shows_ten_shared_flags_and_how_to_see_the_others() -> None:
    text = show("--help")
    shown = flags_in(text)
    assert shown == [
        *(f"--{name}" for name in ProcessSettings.most_used),
        "--config",
        "--all-namespaces",
        "--help-all",
        "--help",
    ]
    assert len(ProcessSettings.most_used) == 10
    assert re.findall(r"^\S.*:$", text, re.MULTILINE) == [f"{MOST_USED}:", "General:"]
    assert len(text.splitlines()) < 60


def test_help_all_shows_every_flag_once() -> None:
    shown = Counter(flags_in(show("--help-all")))
    shared = {declared.flag for declared in declared_settings(ProcessSettings) if not declared.setting.obsolete}
    own = {declared.flag for name, types in TYPES.items() for declared in list_own_settings(name, types).settings}
    general = {"--config", "--all-namespaces", "--help-all", "--help"}
    assert shown == Counter({*(f"--{flag}" for flag in shared | own), *general})
    assert {"--recommender.target-cpu-percentile", "--updater.leader-elect-resource-name"} <= shown.keys()


@pytest.mark.parametrize("width", [120, 100, 80])
def test_help_is_no_wider_than_the_terminal_and_breaks_no_default(width: int) -> None:
    for flag in ("--help", "--help-all"):
        lines = show(flag, width=width).splitlines()
        assert [line for line in lines if len(line) > width] == []
        defaults = [line for line in lines if "[default: " in line]
        assert len(defaults) >= 5
        assert [line for line in defaults if not line.endswith("]")] == []


def test_no_two_settings_have_the_same_flag_parameter_or_variable() -> None:
    declared = [
        *declared_settings(ProcessSettings),
        *(one for name, settings in TYPES.items() for one in component_settings(settings, name)),
    ]
    for name_of in (attrgetter("flag"), attrgetter("parameter"), attrgetter("variable")):
        assert [name for name, count in Counter(map(name_of, declared)).items() if count > 1] == []


def test_every_component_has_the_shared_settings_that_can_be_set_for_it_alone() -> None:
    flags = {one.flag for name, settings in TYPES.items() for one in component_settings(settings, name)}
    assert {"updater.read-only", "hvpa.leader-elect", "recommender.feature-gates"} <= flags
    assert not {"updater.kubeconfig", "updater.address", "updater.v", "nodes.with-buffers"} & flags


def test_a_component_is_called_in_the_catalog_as_everywhere_else() -> None:
    for name, entry in CATALOG.items():
        settings: Any = TYPES[name]()
        managed = entry.manage(settings)
        assert managed.name == name
        assert managed.settings is settings
        assert managed.followed


def test_components_that_do_not_run_are_not_imported() -> None:
    program = (
        "import sys; from trellis.cli.process.catalog import CATALOG, import_all_settings\n"
        "CATALOG['hvpa'].manage(import_all_settings()['hvpa']())\n"
        "print(*sorted(name for name in sys.modules if name.endswith('.process')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["trellis.cli.process", "trellis.controllers.hvpa.process"]


def test_a_wrong_flag_is_answered_with_the_nearest_one() -> None:
    result = CliRunner().invoke(trellis, ["run", "--recommender.target-cpu-percentil=0.9"])
    assert result.exit_code == 2
    assert "--recommender.target-cpu-percentile" in result.output
    assert importlib.import_module("trellis.cli.commands.components.run").command.name == "run"


def test_the_file_comes_from_the_flag_or_the_variable_and_flags_win_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    head = "apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\n"
    file.write_text(f"{head}components: [updater]\nupdater: {{minReplicas: 3, evictionTolerance: 0.1}}\n")
    started: list[RunningConfiguration] = []

    def stop_before_the_start(*arguments: Any) -> NoReturn:
        started.append(configure_process(*arguments))
        raise click.exceptions.Exit(0)

    monkeypatch.setattr(run, "configure_process", stop_before_the_start)
    by_flag = CliRunner().invoke(run.command, [f"--config={file}", "--updater.min-replicas=5"])
    by_variable = CliRunner(env={"TRELLIS_CONFIG": str(file)}).invoke(run.command, ["--updater.min-replicas=5"])
    assert (by_flag.exit_code, by_variable.exit_code) == (0, 0)
    for configuration in started:
        assert configuration.source.path == file
        updater = configuration.effective.components["updater"].settings.disruption
        assert (updater.min_replicas, updater.eviction_tolerance) == (5, 0.1)
    assert len(started) == 2
