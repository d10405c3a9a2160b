"""`trellis check`: finds what is wrong with manifests, without a cluster."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import click

from trellis import __version__
from trellis.api.registry import FILE_KINDS
from trellis.base.reasons import Severity
from trellis.cli.options import cluster_access_options, open_chosen_client
from trellis.cli.output_files import get_wrap_width
from trellis.core.lint.check import CheckResult, check
from trellis.core.lint.findings import Finding
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.findings import as_json, as_sarif, as_text, without_colour
from trellis.reports.formats import encode_indented
from trellis.reports.text.tables import wrap_line

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


@click.command(name="check")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR|-...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="Form of the report.",
)
@click.option("--explain", is_flag=True, help="Say in plain sentences what each object will do.")
@click.option("--strict", is_flag=True, help="Fail on warnings too, and if there is nothing to check.")
@click.option("--cluster", is_flag=True, help="Ask the API server too, in a dry run that stores nothing.")
@cluster_access_options
def command(
    paths: tuple[str, ...],
    *,
    output: str,
    explain: bool,
    strict: bool,
    cluster: bool,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Find what is wrong with autoscaling manifests.

    Reads any mix of manifests, offline: files, directories (every .yaml, .yml and .json below them) and - for standard
    input. VerticalPodAutoscaler, Hvpa and Buffer objects and Scenarios are checked against every rule of their API;
    workloads and HPAs are looked at where one of them refers to them; everything else is ignored.

    Exit status: 0 no errors, 1 errors (with --strict also warnings), 2 the command could not run (with --strict also:
    there was nothing to check).
    """
    if explain and output == "sarif":
        raise click.UsageError("--explain has no place in SARIF: use text or json")
    checked = check(_read_sources(paths))
    if cluster:
        checked = checked.with_findings(asyncio.run(_check_in_cluster(checked, kubeconfig, context)))
    for line in _report(checked, output, explain):
        click.echo(line)
    if checked.errors or (strict and checked.warnings):
        sys.exit(1)
    if strict and not checked.objects:
        missing = "no VerticalPodAutoscaler, Hvpa, Buffer or other object that is checked"
        click.echo(f"trellis: --strict: there is {missing} in {', '.join(paths)}; is the path right?", err=True)
        sys.exit(2)


async def _check_in_cluster(checked: CheckResult, kubeconfig: Path | None, context: str) -> list[Finding]:
    """What the API server says of the objects that we find nothing wrong with."""
    from trellis.core.lint.check import convert_server_error  # noqa: PLC0415 -- only for those who ask a cluster
    from trellis.kube.write.dry_run import dry_run  # noqa: PLC0415

    findings: list[Finding] = []
    async with open_chosen_client(kubeconfig, context, "trellis-check") as (client, namespace):
        for trellis_object in checked.valid_objects:
            if trellis_object.kind in FILE_KINDS:
                continue
            manifest = trellis_object.manifest
            where = manifest.namespace or namespace
            error = await dry_run(client, trellis_object.kind, manifest.value, where)
            if error is not None:
                findings += convert_server_error(trellis_object, error)
    return findings


def _report(checked: CheckResult, output: str, explain: bool) -> Iterator[str]:
    if output == "json":
        explanations = {"explanations": _describe(checked)} if explain else {}
        yield encode_indented(as_json(checked) | explanations).decode().rstrip()
        return
    if output == "sarif":
        yield encode_indented(as_sarif(checked, __version__)).decode().rstrip()
        return
    # For a person sentences fit the terminal; for a program each is a line.
    width = get_wrap_width()
    if explain:
        for explanation in _describe(checked):
            yield f"{explanation['object']} ({explanation['file']})"
            for sentence in explanation["sentences"]:
                yield from wrap_line(f"  {sentence}", width)
            yield ""
    coloured = bool(width) and not os.environ.get("NO_COLOR")
    yield from as_text(checked, _paint if coloured else without_colour)


def _describe(checked: CheckResult) -> list[dict[str, Any]]:
    from trellis.reports.describe import describe_objects  # noqa: PLC0415 -- only for those who ask

    return describe_objects(checked)


def _paint(text: str, severity: Severity) -> str:
    return click.style(text, fg=_COLOURS[severity], bold=True)


def _read_sources(paths: tuple[str, ...]) -> Iterator[ManifestSource]:
    """The files to check; what cannot be read is said at once, with the operating system's reason."""
    yielded: set[Path] = set()
    for name in paths:
        if name == "-":
            yield ManifestSource("<stdin>", sys.stdin.buffer.read())
            continue
        path = Path(name)
        if not path.exists():
            raise click.UsageError(f"{name}: there is no such file or directory")
        files = _list_manifests(path) if path.is_dir() else [path]
        for file in files:
            if file.resolve() not in yielded:
                yielded.add(file.resolve())
                yield ManifestSource(str(file), _read_file(file), named=not path.is_dir())


def _list_manifests(directory: Path) -> list[Path]:
    """Manifests of a directory, in a stable order; hidden directories such as .git are left out."""
    manifests: list[Path] = []
    for folder, folders, files in os.walk(directory, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        directory_path = (Path(folder, name) for name in files if not name.startswith("."))
        manifests += (path for path in directory_path if path.suffix.lower() in _SUFFIXES and path.is_file())
    return sorted(manifests)


def _refuse(error: OSError) -> NoReturn:
    """What cannot be seen into may hold anything: that nothing is wrong with it cannot be said."""
    raise click.UsageError(f"{error.filename}: {error.strerror}")


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from error
