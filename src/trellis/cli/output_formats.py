"""The options `-o` and `--output-file` of a command that prints a result, and the older ones in their place.

Every command takes `-o FORMAT` and `--output-file FILE`. Without `-o`, the ending of the file selects its format, as in
`--output-file report.html`, and the text for people is printed as well. Older spellings such as `--html FILE` are
hidden and work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from trellis.cli.output_files import STANDARD_OUTPUT, check_writable, get_text_width, write_output

if TYPE_CHECKING:
    from trellis.reports.html.documentation import Documentation

F = TypeVar("F", bound=Callable[..., Any])
if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # no generic before click 8.2

# What people read is `text` where it is prose, else `table`. Each word is understood in place of the other.
TEXT: Final = "text"
TABLE: Final = "table"
HTML: Final = "html"
_PLAIN_FORMATS: Final = (TEXT, TABLE)
_ALIASES: Final = {"yml": "yaml", "md": "markdown"}
_FORMATS_BY_SUFFIX: Final = {
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".csv": "csv",
    ".html": "html",
    ".md": "markdown",
    ".sarif": "sarif",
}
_PATH: Final = click.Path(path_type=Path)


class Output(NamedTuple):
    """The format of a result, and the file to write it to; without one it is printed.

    `printed` is a second format, for standard output while the first goes to a file.
    """

    format: str
    file: Path | None = None
    printed: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is the text for people."""
        return self.format in _PLAIN_FORMATS

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats to render."""
        return (self.format,) if self.printed is None else (self.format, self.printed)

    @property
    def is_plain_in_file(self) -> bool:
        """Whether the text for people goes to a file, where no terminal limits its width."""
        return self.is_plain and self.file is not None


class FormatChoice(_Choice):
    """A choice among formats, which also understands `yml`, `md`, and `text` for `table`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The format's own name."""
        name = _ALIASES.get(str(value).lower(), str(value).lower())
        if name in _PLAIN_FORMATS:
            name = next((choice for choice in self.choices if choice in _PLAIN_FORMATS), name)
        if name not in self.choices:
            self.fail(f'"{value}" is no format of this command; choose one of {", ".join(self.choices)}', param, ctx)
        return name


def output_options(formats: Sequence[str]) -> Callable[[F], F]:
    """Add `-o` and `--output-file`; the command gets an `Output` as `output`. The first format is the default."""

    def decorate(command: F) -> F:
        file = click.option(
            "--output-file",
            type=_PATH,
            metavar="FILE",
            expose_value=False,
            is_eager=True,
            callback=_remember_file,
            help="File for the result. Without -o its ending selects the format, and the table or text is printed too."
            if formats[0] in _PLAIN_FORMATS
            else "File for the result, instead of standard output. Without -o its ending selects the format.",
        )
        choice = click.option(
            "-o",
            "--output",
            type=FormatChoice(formats),
            default=formats[0],
            show_default=True,
            callback=_combine,
            help="Format of the result.",
        )
        return choice(file(command))

    return decorate


def _remember_file(ctx: click.Context, _option: click.Parameter, path: Path | None) -> None:
    ctx.meta["output-file"] = path


def _combine(ctx: click.Context, option: click.Parameter, name: str) -> Output:
    """The output of a command; a file that cannot be written is refused before the work."""
    path: Path | None = ctx.meta.get("output-file")
    check_writable({"--output-file": path})
    if path is None:
        _check_documentation(name)
        return Output(name)
    file = None if path == STANDARD_OUTPUT else path
    printed = None
    if ctx.get_parameter_source(option.name or "") is ParameterSource.DEFAULT:
        by_suffix = _FORMATS_BY_SUFFIX.get(path.suffix.lower(), name)
        choices = option.type.choices if isinstance(option.type, click.Choice) else ()
        if by_suffix in choices and by_suffix != name:
            printed = name if name in _PLAIN_FORMATS else None
            name = by_suffix
    _check_documentation(name)
    return Output(name, file, printed)


def read_documentation() -> Documentation:
    """The documentation that a page links to, from the environment or the metadata of the package."""
    from trellis.cli.documentation import find_documentation  # noqa: PLC0415 -- for pages alone

    return find_documentation(os.environ)


def _check_documentation(form: str) -> None:
    """Refuse a wrong address before the work that a page takes."""
    if form == HTML:
        read_documentation()


def older_file_option(name: str) -> Callable[[F], F]:
    """A hidden `--html FILE` and its like: writes one more format to a file; `-` is standard output."""
    option: Callable[[F], F] = click.option(f"--{name}", f"{name}_file", type=_PATH, hidden=True)
    return option


# Renders a result in one format.
RenderResult = Callable[[], "str | bytes"]


def write_result(
    formats: Mapping[str, RenderResult],
    output: Output,
    older_files: Mapping[str, Path | None] | None = None,
) -> None:
    """Write a result in its format to its file or to standard output, and in others to the files of older options.

    Files come first: whatever becomes of standard output, they are there.
    """
    others = {name: path for name, path in (older_files or {}).items() if path is not None}
    written = [path for name, path in others.items() if write_output(path, partial(_render, formats[name]))]
    if output.file is not None:
        write_output(output.file, partial(_render, formats[output.format]))
        written.append(output.file)
    printed = output.format if output.file is None else output.printed
    if printed is not None and STANDARD_OUTPUT not in others.values():
        click.echo(_render(formats[printed]), nl=False)
    for path in written:
        click.echo(f"wrote {path}", err=True)


def check_older_files(output: Output, older_files: Mapping[str, Path | None]) -> None:
    """Refuse files that cannot be written, and two results for standard output."""
    check_writable({f"--{name}": path for name, path in older_files.items()})
    for name in (name for name, path in older_files.items() if path is not None):
        _check_documentation(name)
    to_standard_output = [f"--{name}" for name, path in older_files.items() if path == STANDARD_OUTPUT]
    if to_standard_output and not output.is_plain and output.file is None:
        raise click.UsageError(f"-o {output.format} and {to_standard_output[0]} cannot both go to standard output")


def join_lines(lines: Callable[[int], Any]) -> Callable[[], str]:
    """The text of lines that are made for a width, which is the terminal's."""
    return lambda: "".join(f"{line}\n" for line in lines(get_text_width()))


def encode_as_yaml(make_json: Callable[[], bytes]) -> Callable[[], str]:
    """The YAML of a document that is known as JSON."""

    def make() -> str:
        import msgspec  # noqa: PLC0415 -- the YAML writer is slow to import, and --help does not wait

        from trellis.reports.formats import encode_yaml  # noqa: PLC0415

        return encode_yaml([msgspec.json.decode(make_json())])

    return make


def _render(make: RenderResult) -> bytes:
    result = make()
    return result.encode() if isinstance(result, str) else result
