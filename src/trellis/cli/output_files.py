"""Where do results go? Into files that can be written, which is found out before the work and not after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

STANDARD_OUTPUT: Final = Path("-")


def check_writable(outputs: Mapping[str, Path | None]) -> None:
    """Refuse what cannot be written, by the name of its option."""
    for option, path in outputs.items():
        if path is None or path == STANDARD_OUTPUT:
            continue
        if path.is_dir():
            raise click.UsageError(f"{option} {path}: is a directory; name a file")
        if not path.parent.is_dir():
            raise click.UsageError(f"{option} {path}: there is no directory {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.UsageError(f"{option} {path}: may not be written")
    shared = [option for option, path in outputs.items() if path == STANDARD_OUTPUT]
    if len(shared) > 1:
        raise click.UsageError(f"{' and '.join(shared)} cannot both go to standard output")


def write_out(path: Path | None, make: Callable[[], bytes]) -> None:
    """Write what `make` gives, if it is wanted, and say where it is."""
    if path is None:
        return
    if path == STANDARD_OUTPUT:
        click.echo(make(), nl=False)
        return
    try:
        path.write_bytes(make())
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
    click.echo(f"wrote {path}", err=True)
