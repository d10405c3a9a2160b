"""How are settings given on the command line? As options of click, made from the declarations.

Click is imported when they are asked for, so that a process that is configured otherwise never loads it. An option
hands over text as it was written: what it means is decided in one place, for flags, variables and files alike.

The spellings are upstream's: `--flag` and `--flag=false` for a switch, `-v=4` beside `--v=4`, underscores for dashes.
There is no `--no-flag`, because upstream has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis.runtime.settings import Declared, Settings, declared

if TYPE_CHECKING:
    import click


def _with_dashes(name: str) -> str:
    return name.replace("_", "-")


# What a command with these options needs as its context settings.
CONTEXT: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": _with_dashes,
}


def options(settings: type[Settings]) -> list[click.Option]:
    """One option for each setting, in the order of declaration."""
    import click  # noqa: PLC0415 - see above

    return [click.Option(_flags(each), **_attributes(each)) for each in declared(settings)]


def _flags(each: Declared) -> list[str]:
    letters = [f"-{each.about.letter}"] if each.about.letter else []
    return [*letters, f"--{each.name}", each.parameter]


def _attributes(each: Declared) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "type": str,
        "metavar": (each.about.unit or each.kind.name.replace("`", "")).upper(),
        "help": help_text(each),
        "hidden": each.about.obsolete,
        "multiple": each.kind.repeatable,
    }
    if each.kind.switch:
        attributes.update(is_flag=False, flag_value="true")
    return attributes


def help_text(each: Declared) -> str:
    """What a setting means, with its default."""
    default = each.show(each.default)
    return f"{each.about.meaning} [default: {default}]" if default else each.about.meaning
