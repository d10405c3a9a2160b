"""Command-line options and reference tables, made from the declarations of settings.

Click is imported on demand, so that a process that is configured otherwise never loads it. An option passes on the
text as it was written: flags, variables and files are parsed in one place.

The spellings are upstream's: `--flag` and `--flag=false` for a switch, `-v=4` beside `--v=4`, underscores for dashes.
There is no `--no-flag`, because upstream has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis.runtime.settings.declarations import SettingDeclaration, Settings, declared_settings

if TYPE_CHECKING:
    import click


def _with_dashes(name: str) -> str:
    return name.replace("_", "-")


# The context settings of a command with these options.
CLICK_CONTEXT: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": _with_dashes,
}


def click_options(settings: type[Settings]) -> list[click.Option]:
    """One option for each setting, in the order of declaration."""
    import click  # noqa: PLC0415 - see above

    return [click.Option(_flags(setting), **_attributes(setting)) for setting in declared_settings(settings)]


def _flags(setting: SettingDeclaration) -> list[str]:
    letters = [f"-{setting.setting.letter}"] if setting.setting.letter else []
    return [*letters, f"--{setting.name}", setting.parameter]


def _attributes(setting: SettingDeclaration) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "type": str,
        "metavar": (setting.setting.unit or setting.kind.name.replace("`", "")).upper(),
        "help": format_help(setting),
        "hidden": setting.setting.obsolete,
        "multiple": setting.kind.repeatable,
    }
    if setting.kind.switch:
        attributes.update(is_flag=False, flag_value="true")
    return attributes


def format_help(setting: SettingDeclaration) -> str:
    """The meaning of a setting and its default."""
    default = setting.show(setting.default)
    return f"{setting.setting.meaning} [default: {default}]" if default else setting.setting.meaning


def reference_table(settings: type[Settings], defaults: Settings | None = None) -> str:
    """One row for each setting that has an effect; a component may override the defaults of a shared group."""
    rows = ["| flag | value | default | meaning |", "|---|---|---|---|"]
    rows += [_row(setting) for setting in declared_settings(settings, defaults) if not setting.setting.obsolete]
    return "\n".join(rows) + "\n"


def _row(setting: SettingDeclaration) -> str:
    unit = f", {setting.setting.unit}" if setting.setting.unit else ""
    default = setting.show(setting.default)
    cells = [
        f"`--{setting.name}`",
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
