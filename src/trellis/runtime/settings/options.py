"""Command-line options and reference tables, made from the declarations of settings.

Click is imported on demand, so that a process that is configured otherwise never loads it. An option passes on the
text as it was written: flags, variables and files are parsed in one place.

The spellings are upstream's: `--flag`, `--flag=true` and `--flag=false` for a switch, `-v=4` beside `--v=4`,
underscores for dashes. A switch also has `--no-flag`; of several spellings on one command line the last counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from trellis.runtime.settings.declarations import SettingDeclaration, Settings, component_settings

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem


# Lists the values that begin with a text, for a shell.
Completer = Callable[["click.Context", "click.Parameter", str], "list[CompletionItem]"]


def _with_dashes(name: str) -> str:
    return name.replace("_", "-")


# The context settings of a command with these options.
CLICK_CONTEXT: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": _with_dashes,
}


def click_options(
    settings: type[Settings], component: str = "", completers: Mapping[str, Completer] = MappingProxyType({})
) -> list[click.Option]:
    """One option for each setting, in the order of declaration; those of a component have its name.

    `completers` complete the values of settings in a shell, by the name of the setting.
    """
    import click  # noqa: PLC0415 - see above

    class Switch(click.Option):
        """An option of true or false, with `--no-flag` for false."""

        def __init__(self, *args: Any, **attributes: Any) -> None:
            super().__init__(*args, **attributes)
            self.secondary_opts = [f"--no-{opt.removeprefix('--')}" for opt in self.opts if opt.startswith("--")]

        def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
            super().add_to_parser(parser, ctx)
            parser.add_option(self, self.secondary_opts, self.name, action="store_const", const="false")

    return [
        (Switch if setting.kind.switch else click.Option)(
            _flags(setting), shell_complete=completers.get(setting.name), **_attributes(setting)
        )
        for setting in component_settings(settings, component)
    ]


def _flags(setting: SettingDeclaration) -> list[str]:
    letters = [f"-{setting.letter}"] if setting.letter else []
    return [*letters, f"--{setting.flag}", setting.parameter]


def _attributes(setting: SettingDeclaration) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "type": str,
        "metavar": format_metavar(setting),
        "help": setting.setting.meaning,
        "hidden": setting.setting.obsolete,
        "multiple": setting.kind.repeatable,
    }
    if setting.kind.switch:
        attributes.update(is_flag=False, flag_value="true")
    return attributes


def format_metavar(setting: SettingDeclaration) -> str:
    """What stands for a value in the help: its unit or type, such as DURATION, or the words that it can be."""
    if "`" in setting.kind.name:
        return setting.kind.name.replace("`", "").replace(" or ", "|")
    return (setting.setting.unit or setting.kind.name).upper().replace(" ", "-")


def format_spelling(setting: SettingDeclaration) -> str:
    """A setting as its flag is written: `-v, --v NUMBER`, and `--[no-]leader-elect` for a switch."""
    if setting.kind.switch:
        return f"--[no-]{setting.flag}"
    letter = f"-{setting.letter}, " if setting.letter else ""
    return f"{letter}--{setting.flag} {format_metavar(setting)}"


def format_default(setting: SettingDeclaration) -> str:
    """The default as the help shows it; empty if there is none."""
    default = setting.show(setting.default)
    return f"[default: {default}]" if default else ""


def reference_table(settings: Iterable[SettingDeclaration]) -> str:
    """One row for each setting."""
    rows = ["| flag | value | default | meaning |", "|---|---|---|---|"]
    rows += [_row(setting) for setting in settings]
    return "\n".join(rows) + "\n"


def _row(setting: SettingDeclaration) -> str:
    unit = f", {setting.setting.unit}" if setting.setting.unit else ""
    default = setting.show(setting.default)
    cells = [
        f"`--{setting.flag}`",
        setting.kind.name + unit + _limits(setting),
        f"`{default}`" if default else "none",
        f"{setting.setting.meaning} {setting.setting.why}",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _limits(setting: SettingDeclaration) -> str:
    least, most = setting.setting.minimum, setting.setting.maximum
    if least is not None and most is not None:
        return f", {setting.kind.show(least)} to {setting.kind.show(most)}"
    if least is not None:
        return f", at least {setting.kind.show(least)}"
    return f", at most {setting.kind.show(most)}" if most is not None else ""
