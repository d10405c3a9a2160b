"""`trellis top`: shows workloads by waste and by risk, with their usage now."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.commands.diagnosis.watching import (
    View,
    check_watch_options,
    echo_notes,
    repeat_view,
    run_view,
    watch_options,
)
from trellis.cli.object_names import WORKLOAD_NAMES, find_kind
from trellis.cli.options import cluster_access_options, complete, namespaces_options, open_chosen_client
from trellis.cli.output_files import get_text_width, get_wrap_width
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result

if TYPE_CHECKING:
    from trellis.base.prices import Prices
    from trellis.cli.commands.diagnosis.watching import MakeView
    from trellis.core.advice.survey.scope import WorkloadFilter
    from trellis.core.cluster.dump_format import MissingData
    from trellis.diagnosis.waste import WorkloadRanking
    from trellis.kube.client import Client

_WIDEST = 120
# As `trellis.diagnosis.waste.SortKey` has them, which --help does not wait for; a test compares.
SORT_KEYS = ("waste", "risk", "cpu", "memory", "cost")


@click.command(name="top", cls=TrellisCommand)
@click.argument("names", nargs=-1, metavar="[WORKLOAD]...", shell_complete=complete("workloads"))
@namespaces_options("Only namespaces that match the pattern, such as `team-*`; a leading ! excludes them.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Only workloads with matching labels.")
@click.option(
    "--sort-by", type=click.Choice(SORT_KEYS), default="waste", show_default=True, help="Column to sort by, most first."
)
@click.option("--top", type=click.IntRange(min=0), default=0, metavar="N", help="Show only the first N workloads.")
@click.option("--no-headers", is_flag=True, help="Print neither headings nor totals.")
@click.option(
    "--prices",
    default="",
    metavar="CORE,GIB[,CURRENCY]",
    help="Price of a core and of a GiB for an hour.  [default: an example, 0.0316,0.0042,USD]",
)
@watch_options
@output_options(["table", "json", "yaml", "csv"])
@cluster_access_options
def command(
    names: tuple[str, ...],
    *,
    namespaces: tuple[str, ...],
    selector: str,
    sort_by: str,
    top: int,
    no_headers: bool,
    prices: str,
    watch: bool,
    interval: float,
    output: Output,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Show workloads by waste and by risk.

    WORKLOAD is a name, or a kind and a name: deployment/web. CPU and MEMORY are the usage now of all pods together,
    from the metrics API; REQ is what they request, and REC what the VPA of the workload recommends. LIMIT% is the
    highest share of a memory limit that a container uses.

    WASTE is the cost in a month of what is requested above the need: the recommendation, or the usage now where that is
    higher or where there is no VPA. Usage at one moment is a weak need: `trellis recommend` takes history. RISK is
    the reason that `trellis recommend` would give: MemoryAtRisk, UnderRequested or NoRequest. MemoryAtRisk is also
    shown where more than 90 % of a memory limit is used.

    \b
        trellis top
        trellis top -n 'team-*' --sort-by risk --top 20
        trellis top deployment/web -n shop --watch
        trellis top -o csv --output-file waste.csv

    \b
    Exit status:
      0  done
      2  the command could not run, or the cluster has no usage to show
    """  # noqa: D301 -- click wants the backspace character itself
    from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- NumPy comes with the rest
    from trellis.base.prices import EXAMPLE_PRICES, parse_prices  # noqa: PLC0415
    from trellis.core.advice.survey.scope import WorkloadFilter  # noqa: PLC0415

    check_watch_options(output, watch=watch)
    try:
        priced = parse_prices(prices) if prices else EXAMPLE_PRICES
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint="--prices") from error
    workload_filter = WorkloadFilter.parse(namespaces, selector)
    named = tuple(map(_normalize_name, names))

    async def run() -> int:
        async with open_chosen_client(kubeconfig, context, "trellis-top") as (client, own_namespace):

            async def make() -> View:
                ranking, problem = await _rank(
                    client, own_namespace, workload_filter, priced, sort_by=sort_by, names=named
                )
                if not problem and named and not ranking.rows:
                    problem = f"there is no workload {', '.join(names)}"
                notes = [*_describe_missing(ranking.missing), *([problem] if problem else [])]
                text = _render(ranking, output, top, headers=not no_headers)
                return View(text, 2 if problem else 0, notes)

            if watch:
                return await repeat_view(lambda: _survive_errors(make), interval)
            view = await make()
            echo_notes(view)
            write_result({output.format: lambda: view.text}, output)
            return view.exit_status

    exit_status = run_view(run, watch=watch)
    if exit_status:
        sys.exit(exit_status)


def _normalize_name(name: str) -> str:
    """`deploy/web` as `deployment/web`; raises `click.UsageError` for a kind that is none of workloads."""
    head, slash, rest = name.partition("/")
    if not slash:
        return name
    kind = find_kind(head)
    if kind != "pod" and kind not in WORKLOAD_NAMES:
        raise click.UsageError(f'"{head}" is no kind of workload; name one as in deployment/web')
    return f"{kind.lower()}/{rest}"


async def _survive_errors(make: MakeView) -> View:
    """The view, or why there is none now: an API server that restarts does not end a repetition."""
    from trellis.base.errors import KubeError  # noqa: PLC0415 -- see above
    from trellis.diagnosis.text.status_text import format_no_answer  # noqa: PLC0415
    from trellis.diagnosis.unread import build_no_answer  # noqa: PLC0415

    try:
        return await make()
    except KubeError as error:
        return View("", 2, format_no_answer(build_no_answer(error), get_text_width(_WIDEST)))


def _describe_missing(missing: Iterable[MissingData]) -> list[str]:
    """What could not be read: a line for all kinds of a place that share a reason."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for item in missing:
        kinds.setdefault((item.where, item.why), []).append(item.what)
    return [f"{', '.join(whats)}{f' in {where}' if where else ''}: {why}" for (where, why), whats in kinds.items()]


async def _rank(
    client: Client,
    own_namespace: str,
    workload_filter: WorkloadFilter,
    prices: Prices,
    *,
    sort_by: str,
    names: tuple[str, ...],
) -> tuple[WorkloadRanking, str]:
    """The ranking, and why there is no usage."""
    from trellis.base.errors import Forbidden, KubeError, Unauthorized, Unreachable  # noqa: PLC0415 -- see above
    from trellis.diagnosis.waste import SortKey, rank_workloads  # noqa: PLC0415
    from trellis.sources.metrics_api import MetricsApi  # noqa: PLC0415
    from trellis.sources.survey.cluster import list_cluster_workloads  # noqa: PLC0415

    now = time.time()
    # Lists are tried again for 10 seconds. An API server that does not answer this request ends the wait.
    await client.version()
    present = await list_cluster_workloads(client, workload_filter, own_namespace)
    plain = [pattern for pattern in workload_filter.namespaces if not set(pattern) & set("*?[!")]
    namespace = plain[0] if len(plain) == len(workload_filter.namespaces) == 1 else ""
    usage, problem = None, ""
    try:
        usage = (await MetricsApi(client, namespace).fetch()).samples
    except (Unreachable, Unauthorized):
        raise
    except Forbidden:
        problem = "no usage: you may not list pods.metrics.k8s.io"
    except KubeError as error:
        problem = (
            f"no usage: the metrics API does not answer: {error.message.strip()}; `trellis doctor` says what to do"
        )
    ranked = rank_workloads(present, usage, workload_filter, prices, SortKey(sort_by), names=names, now=now)
    return ranked, problem


def _render(ranking: WorkloadRanking, output: Output, top: int, *, headers: bool) -> str:
    from trellis.diagnosis.text.documents import encode_document  # noqa: PLC0415 -- see above
    from trellis.diagnosis.text.waste_text import (  # noqa: PLC0415
        build_ranking_document,
        encode_ranking_csv,
        format_ranking,
    )

    if output.format == "json":
        return encode_document(build_ranking_document(ranking, top)).decode()
    if output.format == "yaml":
        return encode_as_yaml(lambda: encode_document(build_ranking_document(ranking, top)))()
    if output.format == "csv":
        return encode_ranking_csv(ranking, top)
    lines = format_ranking(ranking, headers=headers, top=top, width=get_wrap_width())
    return "".join(f"{line}\n" for line in lines)
