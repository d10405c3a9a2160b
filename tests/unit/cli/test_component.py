"""The help of a component: its settings in groups, at any width."""

from __future__ import annotations

import importlib

import pytest
from click.testing import CliRunner

from trellis.cli.main import COMMANDS, SECTIONS, trellis
from trellis.cli.process.help import GroupedHelpCommand
from trellis.runtime.settings.groups import COMPATIBILITY, MOST_USED

# `trellis run` has a help of its own.
COMPONENTS = [name for name in SECTIONS["Run in a cluster"] if name != "run"]


def component(name: str) -> GroupedHelpCommand:
    command = importlib.import_module(COMMANDS[name][0]).command
    assert isinstance(command, GroupedHelpCommand)
    return command


def help_of(name: str, width: int = 80, flag: str = "--help-all") -> str:
    result = CliRunner().invoke(trellis, [name, flag], terminal_width=width)
    assert result.exit_code == 0
    return result.output


def titles(text: str) -> list[str]:
    return [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]


@pytest.mark.parametrize("name", COMPONENTS)
def test_help_shows_the_most_used_flags_and_how_to_see_the_others(name: str) -> None:
    text = help_of(name, flag="--help")
    assert titles(text) == [MOST_USED, "General"]
    most_used, general = text.partition(f"{MOST_USED}:")[2].split("\nGeneral:\n")
    # A command that is no component of `trellis run` has no configuration file, no namespaces and few flags.
    is_component = name != "node-provider-server"
    assert most_used.count("\n  -") in ((10,) if is_component else range(8, 11))
    own = ["--config", "-A,"] if is_component else []
    options = [line.split()[0] for line in general.splitlines() if line.startswith("  -")]
    assert options == [*own, "--help-all", "-h,"]
    assert len(text.splitlines()) < 60


@pytest.mark.parametrize("name", [name for name in COMPONENTS if name != "admission-controller"])
def test_the_flag_that_makes_a_first_try_harmless_is_among_the_most_used(name: str) -> None:
    assert "--[no-]read-only" in help_of(name, flag="--help")


@pytest.mark.parametrize("name", COMPONENTS)
def test_help_all_shows_all_flags_in_groups(name: str) -> None:
    groups = component(name).groups
    assert titles(help_of(name)) == [*(group.title for group in groups), "General"]
    assert groups[0].title == MOST_USED
    assert {"API access", "Logging", "Probes, metrics and traces", COMPATIBILITY} <= {group.title for group in groups}
    assert len({group.title for group in groups}) == len(groups)


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("width", [120, 100, 80, 60, 40])
def test_help_never_breaks_a_flag_or_a_default(name: str, width: int) -> None:
    lines = [line.strip() for line in help_of(name, width).splitlines()]
    for group in component(name).groups:
        for setting in () if group.obsolete else group.settings:
            flag = f"--[no-]{setting.name}" if setting.kind.switch else f"--{setting.name} "
            (place,) = (number for number, line in enumerate(lines) if flag in f"{line} " and line.startswith("-"))
            default = setting.show(setting.default)
            if default:
                assert f"[default: {default}]" in lines[place] + "\n" + lines[place + 1]


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("width", [120, 100, 80, 70])
def test_help_is_no_wider_than_the_terminal(name: str, width: int) -> None:
    assert [line for line in help_of(name, width).splitlines() if len(line) > width] == []


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize(
    ("arguments", "value"),
    [([], None), (["--{}"], "true"), (["--no-{}"], "false"), (["--{}=true"], "true"), (["--{}=false"], "false")],
    ids=lambda value: "-".join(value).strip("-") if isinstance(value, list) else None,
)
def test_every_boolean_is_a_flag_and_takes_upstreams_spelling(
    name: str, arguments: list[str], value: str | None
) -> None:
    switches = [
        setting
        for group in component(name).groups
        if not group.obsolete
        for setting in group.settings
        if setting.kind.switch
    ]
    assert len(switches) >= 2
    for setting in switches:
        given = [argument.format(setting.name) for argument in arguments]
        with component(name).make_context(name, given) as context:
            assert context.params[setting.parameter] == value


def test_help_explains_what_an_unset_or_special_value_stands_for() -> None:
    text = " ".join(help_of("recommender").split())
    assert "Path of the kubeconfig of the cluster. Unset: `$KUBECONFIG`, else the ServiceAccount of the pod" in text
    assert "whose VPA sets no `maxAllowed`. 0: no maximum." in text
    assert "without verification, another server could receive the token" not in text  # a reason, for the reference


def test_settings_without_effect_are_only_listed() -> None:
    text = help_of("recommender")
    listed = text[text.index(COMPATIBILITY) : text.index("General:")]
    (without_effect,) = (group for group in component("recommender").groups if group.obsolete)
    obsolete = {setting.name for setting in without_effect.settings}
    assert obsolete == {name.strip().removeprefix("--") for name in listed.split("without effect.")[1].split(",")}
    assert "--memory-saver" not in text.replace(listed, "")
