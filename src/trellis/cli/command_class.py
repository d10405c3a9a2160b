"""The class of all commands: suggests the option that was probably meant, and wraps help without breaking defaults."""

from __future__ import annotations

import re
from typing import Any, Final

import click

# Spaces and hyphens inside `[default: ...]` and inside flags, where a line must not be broken, and their stand-ins.
_WHOLE: Final = re.compile(r"\[(?:default|env var): [^\]\n]{1,32}\]|--[a-z][a-z-]+|[A-Z]-[A-Za-z-]+|[a-z]+-[a-z]+")
_STAND_INS: Final = {" ": "\u00a0", "-": "\u2011"}
_UNBREAKABLE: Final = str.maketrans(_STAND_INS)
_RESTORED: Final = str.maketrans({stand_in: character for character, stand_in in _STAND_INS.items()})


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
            raise

    def get_help(self, ctx: click.Context) -> str:
        """The help, wrapped to the terminal."""
        formatter = _HelpFormatter(width=ctx.terminal_width, max_width=ctx.max_content_width)
        self.format_help(ctx, formatter)
        return formatter.getvalue().rstrip("\n").translate(_RESTORED)


class _HelpFormatter(click.HelpFormatter):
    """Keeps what belongs together on one line."""

    def write_dl(self, rows: Any, *args: Any, **kwargs: Any) -> None:
        """Write options with their help."""
        super().write_dl([(term, _keep_whole(text)) for term, text in rows], *args, **kwargs)

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(_keep_whole(text))


def _keep_whole(text: str) -> str:
    return _WHOLE.sub(lambda match: match[0].translate(_UNBREAKABLE), text)
