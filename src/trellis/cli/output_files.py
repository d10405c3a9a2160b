"""Where do results go? Into files that can be written, which is found out before the work and not after it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeVar

import click

R_contra = TypeVar("R_contra", contravariant=True)

STANDARD_OUTPUT: Final = Path("-")
# Of a table where nobody says how wide it may be, and of any: longer lines are harder to follow.
_USUAL, _WIDEST = 100, 140


class NotWritten(click.ClickException):
    """What there is to say could not be written, which says nothing of what was found."""

    exit_code = 2


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


class Report(Protocol[R_contra]):
    """A module that has a result as a table of some width, as a page, and for programs."""

    def as_text(self, result: R_contra, width: int, /) -> Iterable[str]:
        """Lines for a terminal."""

    def as_html(self, result: R_contra, /) -> str:
        """A page."""

    def as_json(self, result: R_contra, /) -> bytes:
        """All of it."""

    def as_csv(self, result: R_contra, /) -> str:
        """The figures as a table."""


def write_all(report: Report[R_contra], result: R_contra, outputs: Mapping[str, Path | None]) -> None:
    """Print the table, unless something else goes to standard output, and write what is wanted into files."""
    if STANDARD_OUTPUT not in outputs.values():
        for line in report.as_text(result, min(shutil.get_terminal_size((_USUAL, 24)).columns, _WIDEST)):
            click.echo(line)
    write_out(outputs["--html"], lambda: report.as_html(result).encode())
    write_out(outputs["--json"], lambda: report.as_json(result))
    write_out(outputs["--csv"], lambda: report.as_csv(result).encode())


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
        raise NotWritten(f"{path}: {error.strerror or error}") from error
    click.echo(f"wrote {path}", err=True)
