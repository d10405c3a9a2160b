"""The help of commands that run components: ten flags to know first, and all flags with `--help-all`."""

from __future__ import annotations

import re
import textwrap
from typing import Any, Final

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.options import CONTRADICTION
from trellis.runtime.settings.declarations import Setting
from trellis.runtime.settings.groups import SettingGroup
from trellis.runtime.settings.options import format_default, format_spelling

_MEANING_INDENT: Final = 4
# The reason for a default that explains what an empty or special value does.
_STANDS_FOR: Final = re.compile(r"(\d+s?|Unset[^:]*|Empty): ")
# The setting that -A overrides, by its parameter.
_NAMESPACES: Final = "vpa_object_namespace"
_EVERYWHERE: Final = "all_namespaces"
# Where a context notes that all flags are asked for.
_ALL: Final = "trellis.help-all"


class GroupedHelpCommand(TrellisCommand):
    """A command with a flag for each setting, whose help shows the first group, and all with `--help-all`."""

    def __init__(
        self, *args: Any, groups: tuple[SettingGroup, ...], general: tuple[click.Option, ...] = (), **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.groups = groups
        scope = (_build_everywhere_option(),) if any(param.name == _NAMESPACES for param in self.params) else ()
        self.general = (
            *general,
            *scope,
            click.Option(
                ["--help-all"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=self._show_all,
                help="Show all flags and exit.",
            ),
        )
        self.params.extend(self.general)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; -A is the empty list of namespaces, also where a variable or a file has others."""
        if ctx.params.pop(_EVERYWHERE, False):
            if ctx.params[_NAMESPACES]:
                raise click.UsageError(CONTRADICTION, ctx)
            ctx.params[_NAMESPACES] = ""
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each flag with its default on a line of its own, and its meaning below."""
        for group in self.groups if _ALL in ctx.meta else self.groups[:1]:
            write_group(formatter, group)
        with formatter.section("General"):
            for option in (*self.general, self.get_help_option(ctx)):
                if option is not None and (record := option.get_help_record(ctx)):
                    write_flag(formatter, record[0], "", record[1])

    def _show_all(self, ctx: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
        if not is_wanted or ctx.resilient_parsing:
            return
        ctx.meta[_ALL] = True
        click.echo(self.get_help(ctx), color=ctx.color)
        ctx.exit()


def _build_everywhere_option() -> click.Option:
    return click.Option(
        ["-A", "--all-namespaces", _EVERYWHERE],
        is_flag=True,
        help="Serve objects in all namespaces, which is the default.",
    )


def write_group(formatter: click.HelpFormatter, group: SettingGroup) -> None:
    """A group of settings under its title."""
    with formatter.section(group.title):
        if group.obsolete:
            names = ", ".join(f"--{setting.flag}" for setting in group.settings)
            _write_wrapped(formatter, f"{group.meaning} {names}", formatter.current_indent)
            return
        for setting in group.settings:
            write_flag(formatter, format_spelling(setting), format_default(setting), describe_setting(setting.setting))


def describe_setting(setting: Setting) -> str:
    """What a setting is for, and what its default value stands for, such as "Unset: no limit."."""
    explained = _STANDS_FOR.match(setting.why)
    return f"{setting.meaning} {setting.why}" if explained else setting.meaning


def write_flag(formatter: click.HelpFormatter, spelling: str, default: str, meaning: str) -> None:
    """A flag and its default, which are never broken, and the meaning below them, indented."""
    indent = formatter.current_indent
    lines = [f"{spelling}  {default}".rstrip()]
    if indent + len(lines[0]) > formatter.width:
        lines = [spelling, default.rjust(len(default) + _MEANING_INDENT)] if default else [spelling]
    for line in lines:
        formatter.write(" " * indent + line + "\n")
    _write_wrapped(formatter, meaning, indent + _MEANING_INDENT)


def _write_wrapped(formatter: click.HelpFormatter, text: str, indent: int) -> None:
    lines = textwrap.wrap(text, max(formatter.width - indent, 1), break_long_words=False, break_on_hyphens=False)
    formatter.write("".join(f"{' ' * indent}{line}\n" for line in lines))
