"""`trellis status`: shows on one screen whether the components work, and what needs attention."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.commands.diagnosis.watching import (
    View,
    check_watch_options,
    choose_paint,
    repeat_view,
    run_view,
    watch_options,
)
from trellis.cli.options import cluster_access_options, namespace_or_all_options, open_chosen_client
from trellis.cli.output_files import get_text_width
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result

if TYPE_CHECKING:
    from trellis.diagnosis.status import ClusterStatus
    from trellis.kube.client import Client

_WIDEST = 120


@click.command(name="status", cls=TrellisCommand)
@namespace_or_all_options(
    "Namespace of the components.  [default: all; kube-system and trellis-system if not all may be read]"
)
@click.option("--probe", is_flag=True, help="Send a pod through the webhook too, as a dry run: nothing is created.")
@watch_options
@output_options(["table", "json", "yaml"])
@cluster_access_options
def command(
    *,
    namespace: str,
    probe: bool,
    watch: bool,
    interval: float,
    output: Output,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Show what works, and what needs attention.

    One screen: components with ready replicas, leaders, versions and last passes; VPAs, Hvpas and Buffers by
    condition; freezes, the webhook and its certificate, the metrics API. What needs attention is listed below, the
    worst first, each with what to do. Upstream's components are shown too.

    Nothing is changed, and no right is required: what may not be read is listed, with the right that is needed. Passes
    are read from the metrics of the pods, which needs `get` on pods/proxy.

    \b
        trellis status
        trellis status --watch
        trellis status -o json | jq '.findings[].message'
        trellis status --probe -n autoscaling

    \b
    Exit status:
      0  healthy
      1  something needs attention
      2  cannot tell: the API server does not answer, or too little may be
         read
    """  # noqa: D301 -- click wants the backspace character itself
    check_watch_options(output, watch=watch)

    async def run() -> int:
        async with open_chosen_client(kubeconfig, context, "trellis-status") as (client, own_namespace):

            async def make() -> View:
                return await _make_view(client, namespace, own_namespace, output, probe=probe, compact=watch)

            if watch:
                return await repeat_view(make, interval)
            view = await make()
            write_result({output.format: lambda: view.text}, output)
            return view.exit_status

    exit_status = run_view(run, watch=watch)
    if exit_status:
        sys.exit(exit_status)


async def _make_view(
    client: Client, namespace: str, own_namespace: str, output: Output, *, probe: bool, compact: bool
) -> View:
    """The status as text, and its exit status."""
    from trellis.base.errors import KubeError  # noqa: PLC0415 -- --help does not wait for what asks a cluster
    from trellis.diagnosis.collection.collector import collect_facts  # noqa: PLC0415
    from trellis.diagnosis.findings import ExitStatus  # noqa: PLC0415
    from trellis.diagnosis.status import build_status  # noqa: PLC0415
    from trellis.diagnosis.text.documents import STATUS, build_no_answer_document  # noqa: PLC0415
    from trellis.diagnosis.text.status_text import format_no_answer  # noqa: PLC0415
    from trellis.diagnosis.unread import build_no_answer  # noqa: PLC0415

    try:
        facts = await collect_facts(client, time.time(), namespace=namespace, own_namespace=own_namespace, probe=probe)
    except KubeError as error:
        answer = build_no_answer(error)
        if output.is_plain:
            lines = format_no_answer(answer, get_text_width(_WIDEST), choose_paint())
            return View("\n".join(lines) + "\n", ExitStatus.CANNOT_TELL)
        document = build_no_answer_document(STATUS, answer, time.time())
        return View(_encode(document, output, compact=compact), ExitStatus.CANNOT_TELL)
    status = build_status(facts)
    return View(_render(status, output, compact=compact), status.exit_status)


def _render(status: ClusterStatus, output: Output, *, compact: bool) -> str:
    from trellis.diagnosis.text.documents import build_status_document  # noqa: PLC0415
    from trellis.diagnosis.text.status_text import format_status  # noqa: PLC0415

    if output.is_plain:
        return "\n".join(format_status(status, get_text_width(_WIDEST), choose_paint())) + "\n"
    return _encode(build_status_document(status), output, compact=compact)


def _encode(document: dict[str, object], output: Output, *, compact: bool) -> str:
    from trellis.diagnosis.text.documents import encode_document  # noqa: PLC0415

    if output.format == "yaml":
        return encode_as_yaml(lambda: encode_document(document))()
    return encode_document(document, indented=not compact).decode()
