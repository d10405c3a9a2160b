"""The class of all commands: suggests the option that was probably meant, and wraps help without breaking defaults.

Where kubectl or another command has an option that this command lacks, the error says what to type here.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import Any, Final

import click

# Spaces and hyphens inside `[default: ...]` and inside flags, where a line must not be broken, and their stand-ins.
_WHOLE: Final = re.compile(r"\[(?:default|env var): [^\]\n]{1,32}\]|--[a-z][a-z-]+|[A-Z]-[A-Za-z-]+|[a-z]+-[a-z]+")
_STAND_INS: Final = {" ": "\u00a0", "-": "\u2011"}
_UNBREAKABLE: Final = str.maketrans(_STAND_INS)
_RESTORED: Final = str.maketrans({stand_in: character for character, stand_in in _STAND_INS.items()})
# A term before the text that explains it.
_TERM: Final = re.compile(r" *\S+(?: \S+)* {2,}")
# Options of kubectl that some commands lack.
_ALL_NAMESPACES: Final = ("-A", "--all-namespaces")
_FILE: Final = ("-f", "--filename", "--file")
# Click makes help no narrower than this.
_NARROW: Final = 52
_NARROWEST: Final = 20


class TrellisCommand(click.Command):
    """A command that corrects flags with a single dash, and shows help in which defaults and flags stay whole."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the flags; for one with a single dash, suggest two."""
        arguments = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            options = {option for parameter in self.get_params(ctx) for option in parameter.opts}
            for flag in (argument.partition("=")[0].replace("_", "-") for argument in arguments):
                if flag.startswith(error.option_name) and f"-{flag}" in options:
                    raise click.NoSuchOption(flag, possibilities=[f"-{flag}"], ctx=ctx) from error
            if instead := self._find_replacement(ctx, error.option_name):
                raise click.UsageError(f"there is no option {error.option_name} here: {instead}", ctx) from error
            raise

    def _find_replacement(self, ctx: click.Context, name: str) -> str:
        """What to type instead of an option of kubectl or of another command; empty if nothing is known."""
        parameters = self.get_params(ctx)
        options = {option: parameter for parameter in parameters for option in parameter.opts}
        output = options.get("--output")
        if output is not None and isinstance(output.type, click.Choice) and name[2:] in output.type.choices:
            return f"-o {name[2:]} selects the format, and --output-file names a file"
        if name in _ALL_NAMESPACES and "--namespace" in options:
            return "-n names one namespace"
        takes_files = any(isinstance(it, click.Argument) and isinstance(it.type, click.Path) for it in parameters)
        return f"name the file alone, as in `{ctx.command_path} FILE`" if name in _FILE and takes_files else ""

    def get_help(self, ctx: click.Context) -> str:
        """The help, wrapped to the terminal."""
        return format_help(self, ctx)

    def get_usage(self, ctx: click.Context) -> str:
        """The line of usage, wrapped to the terminal."""
        return format_usage(self, ctx)


def format_help(command: click.Command, ctx: click.Context) -> str:
    """The help of a command, wrapped to the terminal."""
    columns = _get_columns(ctx)
    formatter = _make_formatter(ctx)
    command.format_help(ctx, formatter)
    text = formatter.getvalue().rstrip("\n").translate(_RESTORED)
    return "\n".join(fitted for line in text.split("\n") for fitted in _fit_line(line, columns))


def format_usage(command: click.Command, ctx: click.Context) -> str:
    """The line of usage, wrapped to the terminal."""
    formatter = _make_formatter(ctx)
    command.format_usage(ctx, formatter)
    return formatter.getvalue().rstrip("\n")


def _make_formatter(ctx: click.Context) -> _HelpFormatter:
    columns = _get_columns(ctx)
    narrow = columns - 2 if columns < _NARROW else None
    return _HelpFormatter(width=ctx.terminal_width or narrow, max_width=ctx.max_content_width)


def _get_columns(ctx: click.Context) -> int:
    return ctx.terminal_width or max(shutil.get_terminal_size().columns, _NARROWEST)


def _fit_line(line: str, columns: int) -> list[str]:
    """A line of a block that click leaves as it is, such as an example; what follows a term stays in its column.

    Flags and defaults are never broken.
    """
    if len(line) <= columns or line.lstrip().startswith(("-", "[")):
        return [line]
    term = _TERM.match(line)
    indent = len(term[0]) if term and len(term[0]) < columns // 2 else len(line) - len(line.lstrip()) + 4
    return textwrap.wrap(line, columns, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


class _HelpFormatter(click.HelpFormatter):
    """Keeps what belongs together on one line. In a narrow terminal help stands below what it explains."""

    def write_dl(self, rows: Any, *args: Any, **kwargs: Any) -> None:
        """Write options with their help."""
        if self.width >= _NARROW - 2:
            super().write_dl([(term, _keep_whole(text)) for term, text in rows], *args, **kwargs)
            return
        for term, text in rows:
            super().write_text(term)
            with self.indentation():
                super().write_text(_keep_whole(text))

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(_keep_whole(text))


def _keep_whole(text: str) -> str:
    return _WHOLE.sub(lambda match: match[0].translate(_UNBREAKABLE), text)
