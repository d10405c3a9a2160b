"""`trellis completion`: prints the script with which a shell completes commands, options, names and objects."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from trellis.cli.command_class import TrellisCommand

_BASH_ADDS = "COMPREPLY+=($value)"
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
    # After `vpa/` follows a name, and no space.
    click.echo(script.replace(_BASH_ADDS, f"{_BASH_ADDS}\n            [[ $value == */ ]] && compopt -o nospace"))
