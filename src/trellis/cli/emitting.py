"""Where do manifests go? Into files below a directory, each written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from trellis.cli.output_files import NotWritten


def check_directory(option: str, path: Path) -> None:
    """Refuse what no files can be written into, before the work."""
    if path.exists() and not path.is_dir():
        raise click.UsageError(f"{option} {path}: is a file; name a directory")
    if not path.exists() and not path.parent.is_dir():
        raise click.UsageError(f"{option} {path}: there is no directory {path.parent}")


def write_all(directory: Path, texts: Mapping[str, str]) -> None:
    """Write the texts at their paths, over what is there; other files stay."""
    try:
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}.part")
            part.write_text(text, encoding="utf-8")
            part.replace(path)
    except OSError as error:
        raise NotWritten(f"{error.filename or directory}: {error.strerror or error}") from error
