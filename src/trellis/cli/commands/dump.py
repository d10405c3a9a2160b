"""`trellis dump`: collects the state that decides about sizes in a cluster into one file, without secrets."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.interrupts import INTERRUPTED
from trellis.cli.options import (
    NODE_GROUP_PARAMETERS,
    cluster_access_options,
    history_option,
    namespaces_options,
    node_group_options,
    open_chosen_client,
    prometheus_config_option,
    prometheus_history_url_option,
    quiet_option,
    refuse_options,
    refuse_without_prometheus,
    resolution_option,
)
from trellis.cli.output_files import STANDARD_OUTPUT, check_writable, open_atomically
from trellis.cli.progress import format_plural, show_progress
from trellis.cli.standard_streams import write_message

if TYPE_CHECKING:
    from trellis.cli.prometheus_series import PrometheusOptions
    from trellis.controllers.nodes.group_settings import NodeGroupFlags
    from trellis.core.cluster.dump_format import MissingData
    from trellis.sources.cluster.dump_writer import DumpWriter


_PART = "asking the cluster"
_SECRET_BYTES = 32
# What -o means in all other commands.
_FORMATS_OF_OTHERS = frozenset({"text", "table", "json", "yaml", "csv", "html", "markdown", "wide", "name"})


class _RenamedOption(click.Option):
    """`--output-file`, with the spellings that it had before left out of the help."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the help, with the first spelling alone."""
        record = super().get_help_record(ctx)
        return None if record is None else (f"{self.opts[0]} {self.make_metavar(ctx)}", record[1])


@click.command(name="dump", cls=TrellisCommand)
@click.option(
    "--output-file",
    "-o",
    "--output",
    "output",
    cls=_RenamedOption,
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="File to write, compressed if its name ends in .gz; - is standard output.  "
    "[default: trellis-dump-TIME.jsonl.gz]",
)
@namespaces_options("Only namespaces that match the pattern, such as `team-*`; always with nodes and the components.")
@click.option("--anonymous", is_flag=True, help="Replace all names by random ones, consistently.")
@prometheus_history_url_option
@history_option("7d")
@resolution_option
@prometheus_config_option
@quiet_option
@node_group_options
@cluster_access_options
def command(
    output: Path | None,
    *,
    namespaces: tuple[str, ...],
    anonymous: bool,
    prometheus_url: str | None,
    history: str,
    resolution: str,
    prometheus_config: Path | None,
    quiet: bool,
    kubeconfig: Path | None,
    context: str,
    **node_groups: str | None,
) -> None:
    """Save the objects that decide about sizes and counts.

    The file is for `trellis explain --dump`, `trellis simulate --dump` and bug reports. It holds the fields that
    Trellis reads: no Secrets, environment variables, commands, images or mounts, and only known annotations. Objects
    that may not be read are listed and left out.

    \b
        trellis dump
        trellis dump -n 'team-*' --anonymous --output-file dump.jsonl.gz
        trellis dump --prometheus-url http://localhost:9090 --history 14d

    \b
    Exit status:
      0    done
      2    the command could not run
      130  interrupted by Ctrl-C; no file is written
    """  # noqa: D301 -- click wants the backspace character itself
    if output is not None and str(output) in _FORMATS_OF_OTHERS:
        raise click.UsageError(
            f"a dump has one format, and -o names its file; for a file of that name write ./{output}"
        )
    refuse_without_prometheus(prometheus_url)
    if namespaces:
        refuse_options(*NODE_GROUP_PARAMETERS, because="only for all namespaces; with -n a dump has no node groups")
    from trellis.controllers.nodes.group_settings import NodeGroupFlags  # noqa: PLC0415 -- NumPy comes with it

    flags = None if namespaces else NodeGroupFlags(node_groups, os.environ)
    now = time.time()
    path = output or Path(f"trellis-dump-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}.jsonl.gz")
    check_writable({"--output-file": path})
    from trellis.sources.cluster.anonymization import Anonymizer  # noqa: PLC0415 -- NumPy comes with it; --help does not wait
    from trellis.sources.cluster.dump_writer import DumpWriter  # noqa: PLC0415

    writing = DumpWriter(Anonymizer(secrets.token_bytes(_SECRET_BYTES)) if anonymous else None)
    try:
        with open_atomically(path) as file:
            access = (kubeconfig, context)
            asyncio.run(_collect(file, writing, access, (namespaces, flags), now, quiet=quiet))
            if prometheus_url:
                from trellis.cli.prometheus_series import PrometheusOptions  # noqa: PLC0415 -- see above

                options = PrometheusOptions(prometheus_url, history, resolution, prometheus_config)
                file.writelines(_read_history(writing, options, namespaces, quiet=quiet))
            file.write(writing.encode_end())
    except KeyboardInterrupt:
        write_message("stopped; nothing was written")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        raise  # the reader of standard output has closed it
    except OSError as error:
        write_message(f"{path}: {error.strerror or error}")
        sys.exit(2)
    for line in _summarize(writing):
        click.echo(line, err=True)
    if path == STANDARD_OUTPUT:
        return
    size = f", {format_plural(path.stat().st_size, 'byte')}" if path.is_file() else ""  # a pipe has none
    click.echo(f"wrote {path}{size}", err=True)


async def _collect(
    file: BufferedIOBase,
    writing: DumpWriter,
    access: tuple[Path | None, str],
    wanted: tuple[tuple[str, ...], NodeGroupFlags | None],
    now: float,
    *,
    quiet: bool,
) -> None:
    from msgspec.structs import replace  # noqa: PLC0415 -- see above

    from trellis.controllers.nodes.group_query import build_query  # noqa: PLC0415 -- see above
    from trellis.sources.cluster.collector import collect_lines  # noqa: PLC0415
    from trellis.sources.cluster.lists import CollectionScope  # noqa: PLC0415

    with show_progress([_PART], lambda lists: f"{lists:,.0f} lists/s", quiet=quiet) as report_progress:
        async with open_chosen_client(*access, "trellis-dump") as (client, context_namespace):
            namespaces, flags = wanted
            scope = CollectionScope(namespaces, context_namespace)
            if flags is not None:
                scope = replace(
                    scope, node_groups=flags.own_settings.kwok.kwok_node_groups, chosen=flags.names_kwok_node_groups
                )
            collecting = collect_lines(
                client,
                scope,
                writing,
                now,
                lambda done, total: report_progress(_PART, done, total),
                # Some namespaces alone do not decide what becomes of nodes.
                query_groups=build_query(flags) if flags is not None else None,
            )
            async with aclosing(collecting) as responses:  # nothing is asked any more once nothing can be written
                async for lines in responses:
                    file.write(lines)


def _read_history(
    writing: DumpWriter, options: PrometheusOptions, namespaces: Sequence[str], *, quiet: bool
) -> Iterator[bytes]:
    """The lines of the usage history in Prometheus."""
    from trellis.cli.prometheus_series import read_prometheus_history  # noqa: PLC0415 -- see above

    history, missing = read_prometheus_history(options, namespaces, quiet=quiet)
    yield from map(writing.encode_history, history)
    yield from map(writing.encode_missing, missing)


def _summarize(writing: DumpWriter) -> Iterator[str]:
    """Counts of the objects in the file, and the data that is missing."""
    counts = sorted(writing.counts.items())
    yield ", ".join(f"{name} {count:,}" for name, count in counts) or "there is nothing in it"
    if writing.missing:
        yield "left out:"
    for (where, reason), names in _group_missing(writing.missing).items():
        yield f"  {where or 'everywhere'}: {', '.join(names)} {reason}"


def _group_missing(missing: Sequence[MissingData]) -> dict[tuple[str, str], list[str]]:
    grouped: dict[tuple[str, str], list[str]] = {}
    for item in missing:
        grouped.setdefault((item.where, item.why), []).append(item.what)
    return grouped
