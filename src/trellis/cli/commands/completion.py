"""`trellis completion`: prints the script with which a shell completes commands, options, names and objects."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from trellis.cli.command_class import TrellisCommand

# What click's scripts lack. After `vpa/` follows a name, and no space; and a value may contain a comma, at which fish
# would cut it, as in `--recommenders default,seasonal`.
_CHANGES: Final = (
    ("COMPREPLY+=($value)", "COMPREPLY+=($value)\n            [[ $value == */ ]] && compopt -o nospace"),
    (
        "compadd -U -V unsorted -a completions",
        "local -a kinds=(${(M)completions:#*/})\n        compadd -U -V unsorted -S '' -a kinds\n"
        "        completions=(${completions:#*/})\n        compadd -U -V unsorted -a completions",
    ),
    ('string split "," $completion', 'string split --max 1 "," $completion'),
)
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(name="completion", cls=TrellisCommand)
@click.argument("shell", type=click.Choice(list(_SHELLS)), metavar="bash|zsh|fish")
def command(shell: str) -> None:
    """Print the completion script of a shell.

    The script completes commands and options, names of recommenders, and namespaces and objects of the cluster, if it
    answers within two seconds.

    \b
        source <(trellis completion bash)
        source <(trellis completion zsh)
        trellis completion fish | source

    Put the line into ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish to have it in every shell.
    """  # noqa: D301 -- click wants the backspace character itself
    completer = _SHELLS[shell](click.Command("trellis"), {}, "trellis", "_TRELLIS_COMPLETE")
    # The method of the base class: that of bash starts a bash to find its version.
    script = ShellComplete.source(completer)
    for clicks, ours in _CHANGES:
        script = script.replace(clicks, ours)
    click.echo(script)
