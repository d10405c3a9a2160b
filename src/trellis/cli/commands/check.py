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
from trellis.api.registry import FILE_KINDS, Kind
from trellis.base.reasons import Severity
from trellis.cli.command_class import TrellisCommand
from trellis.cli.options import cluster_access_options, namespace_option, open_chosen_client, refuse_options
from trellis.cli.output_files import get_wrap_width
from trellis.cli.output_formats import Output, RenderResult, encode_as_yaml, output_options, write_result
from trellis.cli.process.configuration_format import build_configuration_format
from trellis.cli.standard_streams import write_message
from trellis.core.lint.check import CheckResult, check
from trellis.core.lint.findings import Finding
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.findings import as_json, as_sarif, as_text, without_colour
from trellis.reports.formats import encode_indented
from trellis.reports.text.tables import wrap_line

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


@click.command(name="check", cls=TrellisCommand)
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR|-...", type=click.Path())
@output_options(["text", "json", "yaml", "sarif"])
@click.option("--explain", is_flag=True, help="Describe in sentences what each object does.")
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too, and with 2 if there is nothing to check.")
@click.option(
    "--cluster", is_flag=True, help="Also send the objects to the API server, in a dry run that stores nothing."
)
@namespace_option("With --cluster: namespace of objects that name none.  [default: that of the context]")
@cluster_access_options
def command(
    paths: tuple[str, ...],
    *,
    output: Output,
    explain: bool,
    strict: bool,
    cluster: bool,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Find mistakes in autoscaling manifests.

    No cluster is needed. Reads files, directories (all .yaml, .yml and .json files below them) and standard input (-).
    VerticalPodAutoscalers, Hvpas, Buffers, Scenarios and configuration files (TrellisConfiguration, also in ConfigMaps)
    are checked against every rule. Workloads and HPAs are read where one of these objects refers to them. All other
    objects are ignored.

    \b
        trellis check manifests/
        kustomize build . | trellis check - --strict
        trellis check manifests/ --output-file check.sarif

    \b
    Exit status:
      0  no errors
      1  errors, or warnings with --strict
      2  the command could not run, or found nothing to check with --strict
    """  # noqa: D301 -- click wants the backspace character itself
    if explain and output.format == "sarif":
        raise click.UsageError("--explain does not work with -o sarif: use text, json or yaml")
    if not cluster:
        refuse_options("namespace", "context", "kubeconfig", because="needs --cluster")
    checked = check(_read_sources(paths), [build_configuration_format()])
    if cluster:
        checked = checked.with_findings(asyncio.run(_check_in_cluster(checked, namespace, kubeconfig, context)))
    formats: dict[str, RenderResult] = {
        "text": lambda: _render_text(checked, explain, to_file=output.is_plain_in_file),
        "json": lambda: _render_json(checked, explain),
        "yaml": encode_as_yaml(lambda: _render_json(checked, explain)),
        "sarif": lambda: encode_indented(as_sarif(checked, __version__)),
    }
    write_result(formats, output)
    if checked.errors or (strict and checked.warnings):
        sys.exit(1)
    if strict and not checked.objects:
        missing = "no VerticalPodAutoscaler, Hvpa, Buffer or other object that is checked"
        write_message(f"--strict: there is {missing} in {', '.join(paths)}; is the path right?")
        sys.exit(2)


async def _check_in_cluster(
    checked: CheckResult, chosen_namespace: str, kubeconfig: Path | None, context: str
) -> list[Finding]:
    """The findings of the API server about the objects without errors."""
    from trellis.core.lint.check import convert_server_error  # noqa: PLC0415 -- only for those who ask a cluster
    from trellis.kube.write.dry_run import dry_run  # noqa: PLC0415

    findings: list[Finding] = []
    async with open_chosen_client(kubeconfig, context, "trellis-check") as (client, context_namespace):
        for trellis_object in checked.valid_objects:
            kind = trellis_object.kind
            if not isinstance(kind, Kind) or kind in FILE_KINDS:
                continue
            manifest = trellis_object.manifest
            where = manifest.namespace or chosen_namespace or context_namespace
            error = await dry_run(client, kind, manifest.value, where)
            if error is not None:
                findings += convert_server_error(trellis_object, error)
    return findings


def _render_json(checked: CheckResult, explain: bool) -> bytes:
    explanations = {"explanations": _describe(checked)} if explain else {}
    return encode_indented(as_json(checked) | explanations)


def _render_text(checked: CheckResult, explain: bool, *, to_file: bool) -> str:
    return "".join(f"{line}\n" for line in _list_lines(checked, explain, 0 if to_file else get_wrap_width()))


def _list_lines(checked: CheckResult, explain: bool, width: int) -> Iterator[str]:
    """The lines of the report; a width of zero leaves sentences whole, for programs."""
    if explain:
        for explanation in _describe(checked):
            yield from wrap_line(f"{explanation['object']} ({explanation['file']})", width)
            for sentence in explanation["sentences"]:
                yield from wrap_line(f"  {sentence}", width)
            yield ""
    coloured = bool(width) and not os.environ.get("NO_COLOR")
    yield from as_text(checked, _paint if coloured else without_colour, width)


def _describe(checked: CheckResult) -> list[dict[str, Any]]:
    from trellis.reports.describe import describe_objects  # noqa: PLC0415 -- only for those who ask

    return describe_objects(checked)


def _paint(text: str, severity: Severity) -> str:
    return click.style(text, fg=_COLOURS[severity], bold=True)


def _read_sources(paths: tuple[str, ...]) -> Iterator[ManifestSource]:
    """The files to check; raises `click.UsageError` with the operating system's reason for one that cannot be read."""
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
    """Refuse a directory that cannot be listed: its manifests would pass unchecked."""
    raise click.UsageError(f"{error.filename}: {error.strerror}")


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from error
