"""`trellis version`: prints the versions of the client, of the API server, and of the components in the cluster."""

from __future__ import annotations

import asyncio
import json
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trellis import __version__
from trellis.cli.command_class import TrellisCommand
from trellis.cli.options import cluster_access_options, namespaces_options, open_chosen_client
from trellis.cli.output_files import get_wrap_width
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result
from trellis.cli.standard_streams import write_message

if TYPE_CHECKING:
    from trellis.sources.cluster.installed_components import InstalledComponents

_TIMEOUT: Final = 10.0  # seconds for all requests


@click.command(name="version", cls=TrellisCommand)
@click.option("--client", is_flag=True, help="Print only the version of the client, and contact no cluster.")
@output_options(["text", "json", "yaml"])
@namespaces_options("Only components in namespaces that match the pattern, such as `kube-*`.")
@cluster_access_options
def command(
    *, client: bool, output: Output, namespaces: tuple[str, ...], kubeconfig: Path | None, context: str
) -> None:
    """Print versions of the client and of the components.

    Components of Trellis and of upstream's VPA are found by their Deployments in all namespaces, and by their Leases in
    kube-system and trellis-system. The version is the tag of the image. The leader is the process that holds the Lease.

    \b
    Exit status:
      0  done
      1  the cluster, or a part of it, could not be read
    """  # noqa: D301 -- click wants the backspace character itself
    installed, problem = (None, "") if client else _ask_cluster(namespaces, kubeconfig, context)
    document = _build_document(installed)
    formats = {
        "text": lambda: "".join(
            f"{line}\n" for line in _list_lines(document, 0 if output.is_plain_in_file else get_wrap_width())
        ),
        "json": lambda: json.dumps(document, indent=2) + "\n",
        "yaml": encode_as_yaml(lambda: json.dumps(document).encode()),
    }
    write_result(formats, output)
    problems = [problem] if problem else list(installed.problems if installed is not None else ())
    for line in problems:
        write_message(line)
    if problems:
        sys.exit(1)


def _ask_cluster(
    namespaces: tuple[str, ...], kubeconfig: Path | None, context: str
) -> tuple[InstalledComponents | None, str]:
    """The components of the cluster; without an answer, the reason."""
    from trellis.base.errors import TrellisError  # noqa: PLC0415 -- for those who ask a cluster

    try:
        return asyncio.run(asyncio.wait_for(_find_components(namespaces, kubeconfig, context), _TIMEOUT)), ""
    except TimeoutError:
        return None, f"the cluster did not answer within {_TIMEOUT:g} s; --client prints the client alone"
    except TrellisError as error:
        return None, f"{error}; --client prints the client alone"


async def _find_components(namespaces: tuple[str, ...], kubeconfig: Path | None, context: str) -> InstalledComponents:
    from trellis.sources.cluster.installed_components import find_installed_components  # noqa: PLC0415 -- see above

    async with open_chosen_client(kubeconfig, context, "trellis-version") as (client, _):
        return await find_installed_components(client, namespaces, time.time())


def _build_document(installed: InstalledComponents | None) -> dict[str, Any]:
    """The versions as JSON has them."""
    document: dict[str, Any] = {"client": {"version": __version__, "python": platform.python_version()}}
    if installed is not None:
        import msgspec  # noqa: PLC0415 -- for those who ask a cluster

        document["server"] = {"version": installed.server}
        document["components"] = msgspec.to_builtins(installed.components)
    return document


def _list_lines(document: dict[str, Any], width: int) -> list[str]:
    """The lines for people; where the columns do not fit, what is known of a component stands below its name."""
    client = document["client"]
    lines = [f"client  {client['version']} (Python {client['python']})"]
    if "server" not in document:
        return lines
    lines.append(f"server  {document['server']['version']}")
    from trellis.reports.text.tables import (  # noqa: PLC0415 -- for those who ask a cluster
        align_columns,
        measure_width,
        stack_rows,
        wrap_line,
    )

    components = document["components"]
    if not components:
        return [*lines, "", *wrap_line("The cluster runs no component of Trellis or of upstream's VPA.", width)]
    rows = [
        [
            component["component"],
            component["version"] or "-",
            f"{component['ready']}/{component['replicas']}" if component["deployment"] else "-",
            f"{component['namespace']}/{component['deployment'] or '-'}",
            component["image"] or "-",
            component["leader"] or "-",
        ]
        for component in components
    ]
    titles = ["component", "version", "ready", "deployment", "image", "leader"]
    table = align_columns([titles, *rows], left_aligned=len(titles))
    return [*lines, "", *(stack_rows(titles, rows, width) if 0 < width < measure_width(table) else table)]
