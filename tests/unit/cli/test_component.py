"""The help of a component: its settings in groups, at any width."""

from __future__ import annotations

import importlib

import pytest
from click.testing import CliRunner

from trellis.cli.component import ComponentCommand
from trellis.cli.main import COMMANDS, SECTIONS, trellis
from trellis.runtime.settings.declarations import declared_settings
from trellis.runtime.settings.groups import COMPATIBILITY, MOST_USED, list_groups

COMPONENTS = list(SECTIONS["Run in a cluster"])


def component(name: str) -> ComponentCommand:
    command = importlib.import_module(COMMANDS[name][0]).command
    assert isinstance(command, ComponentCommand)
    return command


def help_of(name: str, width: int = 80) -> str:
    result = CliRunner().invoke(trellis, [name, "--help"], terminal_width=width)
    assert result.exit_code == 0
    return result.output


def titles(text: str) -> list[str]:
    return [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]


@pytest.mark.parametrize("name", COMPONENTS)
def test_help_shows_about_ten_most_used_flags_first_and_the_others_in_groups(name: str) -> None:
    groups = list_groups(component(name).settings)
    assert titles(help_of(name)) == [*(group.title for group in groups), "General"]
    assert groups[0].title == MOST_USED
    assert len(groups[0].settings) in range(8, 11)
    assert {"API access", "Logging", "Probes and metrics", COMPATIBILITY} <= {group.title for group in groups}
    assert len({group.title for group in groups}) == len(groups)


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_help_never_breaks_a_flag_or_a_default(name: str, width: int) -> None:
    lines = [line.strip() for line in help_of(name, width).splitlines()]
    for group in list_groups(component(name).settings):
        for setting in () if group.obsolete else group.settings:
            flag = f"--[no-]{setting.name}" if setting.kind.switch else f"--{setting.name} "
            (place,) = (number for number, line in enumerate(lines) if flag in f"{line} " and line.startswith("-"))
            default = setting.show(setting.default)
            if default:
                assert f"[default: {default}]" in lines[place] + "\n" + lines[place + 1]


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("width", [80, 70])
def test_help_is_no_wider_than_the_terminal(name: str, width: int) -> None:
    assert [line for line in help_of(name, width).splitlines() if len(line) > width] == []


def test_settings_without_effect_are_only_listed() -> None:
    text = help_of("recommender")
    listed = text[text.index(COMPATIBILITY) : text.index("General:")]
    obsolete = {
        setting.name for setting in declared_settings(component("recommender").settings) if setting.setting.obsolete
    }
    assert obsolete == {name.strip().removeprefix("--") for name in listed.split("without effect.")[1].split(",")}
    assert "--memory-saver" not in text.replace(listed, "")
