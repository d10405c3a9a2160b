"""`trellis examples`: lists the examples that come with the package, and copies them."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from trellis.base.names import suggest_name
from trellis.cli.command_class import TrellisCommand
from trellis.cli.options import refuse_options
from trellis.cli.output_files import WriteFailed, get_wrap_width
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result
from trellis.reports.text.tables import wrap_line

# What each directory of examples shows.
TOPICS: Final = {
    "actuation-requirements": "VPAs that change running pods only under conditions",
    "backtest": "recorded usage, for `trellis backtest` and `trellis recommend`",
    "buffer-target": "a package that adds a target kind to Buffers",
    "buffers": "Buffers: spare capacity as an object",
    "configuration": "a configuration file, for `trellis run --config`",
    "dump": "a dump of a cluster, for `trellis simulate --dump`",
    "explain": "dumps of clusters, for `trellis explain --dump`",
    "hvpa": "Hvpas: replica count and pod size together",
    "nodes": "node groups for the node autoscaler",
    "recommender-plugin": "a package with a recommender",
    "recommenders": "VPAs that name their recommender",
    "simulate": "scenarios, for `trellis simulate`",
    "quickstart": "a workload and its VPA, to try an installation with",
    "startup-boost": "VPAs with more CPU while a container starts",
    "real-node": "a workload that really computes, for `make cluster NODE=real`",
    "web": "a workload with its autoscaling objects, for `trellis check`",
}


@click.command(name="examples", cls=TrellisCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--copy-to",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Copy the examples into this directory, which is created if it is missing.",
)
@click.option("--force", is_flag=True, help="Overwrite files that differ from the examples.")
@output_options(["text", "json", "yaml"])
def command(names: tuple[str, ...], *, copy_to: Path | None, force: bool, output: Output) -> None:
    """List the examples, or copy them into a directory.

    Without NAME all examples are listed or copied; with a NAME, only the files of these examples. The documentation
    uses them below `examples/`:

    \b
        trellis examples
        trellis examples --copy-to examples
        trellis simulate examples/simulate/small.yaml
        trellis examples web buffers --copy-to manifests
    """  # noqa: D301 -- click wants the backspace character itself
    source = find_examples()
    for name in names:
        if name not in TOPICS:
            guess = suggest_name(name, TOPICS)
            hint = f' (did you mean "{guess}"?)' if guess else ""
            raise click.UsageError(f'there is no example "{name}"{hint}; the examples are {", ".join(TOPICS)}')
    if copy_to is None:
        refuse_options("force", because="needs --copy-to")
        _write_list(source, names, output)
        return
    refuse_options("output", because="with --copy-to nothing is listed")
    if output.file is not None:
        raise click.UsageError("--output-file: with --copy-to nothing is listed")
    copied = copy_examples(source, list(names) or list(TOPICS), copy_to, force=force)
    click.echo(f"copied {copied} files to {copy_to}", err=True)


def find_examples() -> Path:
    """The directory of the examples: in the package, or in the checkout that it runs from."""
    import trellis  # noqa: PLC0415 -- for its place

    package = Path(trellis.__file__).parent
    for directory in (package / "examples", package.parents[1] / "examples"):
        if (directory / "simulate").is_dir():
            return directory
    raise click.ClickException(f"the examples are missing from the installation in {package}")


def _write_list(source: Path, names: Sequence[str], output: Output) -> None:
    """All examples, or the files of those that are named."""
    width = 0 if output.is_plain_in_file else get_wrap_width()
    document = {
        "examples": [
            {
                "name": name,
                "about": TOPICS[name],
                "files": [path.as_posix() for path in iterate_files(source, name)],
            }
            for name in names or TOPICS
        ]
    }
    encoded = json.dumps(document, indent=2) + "\n"
    lines = _list_files(source, names) if names else _list_topics(width)
    formats = {
        "text": lambda: "".join(f"{line}\n" for line in lines),
        "json": lambda: encoded,
        "yaml": encode_as_yaml(encoded.encode),
    }
    write_result(formats, output)


def _list_topics(width: int) -> Iterator[str]:
    """A line for each example; a width of zero leaves lines whole, for programs."""
    longest = max(map(len, TOPICS))
    indent = " " * (longest + 2 if width >= 2 * longest else 4)
    for name, topic in TOPICS.items():
        line = f"{name.ljust(longest)}  {topic}"
        yield from textwrap.wrap(line, width or len(line), subsequent_indent=indent, break_on_hyphens=False)
    yield ""
    yield from wrap_line("`trellis examples --copy-to examples` copies them.", width)


def _list_files(source: Path, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield from (path.as_posix() for path in iterate_files(source, name))


def iterate_files(source: Path, name: str) -> Iterator[Path]:
    """The files of an example, relative to the directory of all."""
    for path in sorted((source / name).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(source)


def copy_examples(source: Path, names: Sequence[str], target: Path, *, force: bool) -> int:
    """Copy examples; returns the number of files. Files that differ are refused before the first is written."""
    files = [file for name in names for file in iterate_files(source, name)]
    files += [path.relative_to(source) for path in sorted(source.iterdir()) if path.is_file()]
    changed = [file for file in files if _differs(source / file, target / file)]
    if changed and not force:
        raise click.UsageError(f"{target / changed[0]} exists and differs from the example; --force overwrites it")
    try:
        for file in files:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / file, target / file)
    except OSError as error:
        raise WriteFailed(f"{error.filename or target}: {error.strerror or error}") from error
    return len(files)


def _differs(source: Path, target: Path) -> bool:
    return target.exists() and (not target.is_file() or target.read_bytes() != source.read_bytes())
