"""Options of `trellis recommend`: which workloads, from where, by which recommender and rules, in which format.

Imports only click at the top, so that `--help` does not wait for NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from trellis.cli.options import history_option, machine_option, prometheus_config_option, resolution_option

F = TypeVar("F", bound=Callable[..., Any])
ReadOption = Callable[[click.Context, click.Parameter, str | None], float]

# As `trellis.reports.advice.report` has them, which --help does not wait for; a test compares.
FORMATS = ("table", "json", "yaml", "csv", "html", "markdown")
MANIFEST_FORMS = ("patches", "vpa", "kustomize")
UPDATE_MODES = ("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace")
_PATH = click.Path(path_type=Path)


class RequestBounds(NamedTuple):
    """The least and the most that may be requested, in millicores and bytes; NaN is no bound."""

    least: tuple[float, float]
    most: tuple[float, float]


def _amount(resource: str) -> ReadOption:
    """Reads an amount of CPU or memory, as millicores or bytes; NaN where there is none."""

    def read(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
        if text is None:
            return math.nan
        from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- for those who set a bound
        from trellis.base.quantities import Quantity  # noqa: PLC0415

        try:
            quantity = Quantity.parse(text)
        except InvalidInput as error:
            raise click.BadParameter(str(error)) from error
        if quantity <= Quantity.ZERO:
            raise click.BadParameter(f'"{text}" is no amount above zero')
        return float(quantity.milli if resource == "cpu" else quantity.units)

    return read


def _seconds(_context: click.Context, _option: click.Parameter, text: str) -> float:
    from trellis.base.errors import InvalidDuration  # noqa: PLC0415 -- NumPy comes with it
    from trellis.sources.prometheus.durations import parse_prometheus_duration  # noqa: PLC0415

    try:
        return parse_prometheus_duration(text).total_seconds()
    except InvalidDuration:
        raise click.BadParameter(f'"{text}" is no duration such as 12h or 7d') from None


def _share(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        share = float(text.strip().removesuffix("%")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise click.BadParameter(f'"{text}" is no share between 0% and 100%')
    return share


_SELECTION_OPTIONS = (
    click.option(
        "-n",
        "--namespace",
        "namespaces",
        multiple=True,
        metavar="PATTERN",
        help="Only such namespaces, as `team-*`; a pattern that begins with ! takes some out.",
    ),
    click.option("-l", "--selector", default="", metavar="SELECTOR", help="Only workloads with such labels."),
    click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only workloads of a kind, as `deployment`."),
    click.option(
        "--job-grouping-labels",
        "job_labels",
        default="",
        metavar="KEY[,KEY...]",
        help="Take Jobs with the same value of such a label for one workload. Those of a CronJob are one anyway.",
    ),
)
_SOURCE_OPTIONS = (
    click.option("--vpas", is_flag=True, help="Take what VerticalPodAutoscalers recommend, and look at no usage."),
    click.option("--no-cluster", is_flag=True, help="Ask Prometheus alone, also about workloads and their requests."),
    click.option("--prometheus-url", metavar="URL", help="Prometheus, or what speaks its HTTP API.  [default: found]"),
    click.option(
        "--prometheus-header",
        "prometheus_headers",
        multiple=True,
        metavar="NAME: VALUE",
        help="Send such a header with every query.",
    ),
    click.option("--prometheus-tenant", metavar="NAME", help="Of which tenant, for Mimir: sent as X-Scope-OrgID."),
    prometheus_config_option,
    history_option("14d"),
    resolution_option,
    click.option(
        "--resume",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Keep what was read in this file, and go on from it.",
    ),
    machine_option,
)
_RULE_OPTIONS = (
    click.option("--recommender", default="default", show_default=True, metavar="NAME", help="Who is asked."),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="PARAMETER=VALUE",
        help="Another value for a parameter. `trellis recommenders` lists them.",
    ),
    click.option(
        "--limits",
        default="",
        metavar="RULE",
        help="What becomes of limits: none, request (the same), keep, or keep-ratio; or one for each resource, as in "
        "cpu=keep,memory=request.  [default: cpu=none,memory=request]",
    ),
    click.option("--min-cpu", callback=_amount("cpu"), metavar="QUANTITY", help="Request at least so much."),
    click.option("--max-cpu", callback=_amount("cpu"), metavar="QUANTITY", help="Request at most so much."),
    click.option("--min-memory", callback=_amount("memory"), metavar="QUANTITY", help="Request at least so much."),
    click.option("--max-memory", callback=_amount("memory"), metavar="QUANTITY", help="Request at most so much."),
    click.option(
        "--min-history",
        callback=_seconds,
        metavar="DURATION",
        default="1d",
        show_default=True,
        help="Leave containers alone of which there is less, unless they lack memory.",
    ),
    click.option(
        "--tolerance",
        callback=_share,
        metavar="SHARE",
        default="10%",
        show_default=True,
        help="Leave requests alone that are off by no more.",
    ),
    click.option(
        "--prices",
        default="",
        metavar="CORE,GIB[,CURRENCY]",
        help="Money for an hour of one.  [default: an example, 0.0316,0.0042,USD]",
    ),
)
_OUTPUT_OPTIONS = (
    click.option(
        "--suggest-buckets",
        is_flag=True,
        help="Propose an Hvpa with buckets for each workload that can be scaled, with its cost beside the present one.",
    ),
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Form of it."),
    click.option("--output-file", type=_PATH, help="Write it there instead of to standard output."),
    click.option(
        "--emit",
        type=(click.Choice(MANIFEST_FORMS), _PATH),
        metavar=f"{'|'.join(MANIFEST_FORMS)} DIR",
        help="Write manifests to commit: a patch for each workload that should change, a VerticalPodAutoscaler for "
        "each that has none, or patches with a component for kustomize.",
    ),
    click.option(
        "--update-mode",
        type=click.Choice(UPDATE_MODES),
        default="Off",
        show_default=True,
        help="Of the VerticalPodAutoscalers that are written.",
    ),
    click.option("--top", type=click.IntRange(min=0), default=0, metavar="N", help="Show only so many rows."),
    click.option(
        "--fail-over",
        callback=_share,
        metavar="SHARE",
        help="Fail if more than this share of what is requested, by its price, is not needed, or if nothing is known.",
    ),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


def recommend_options(command: F) -> F:
    """Add all of them, in the order in which they are listed here; the four bounds come as one."""

    @wraps(command)
    def bounded(**options: Any) -> Any:
        least, most = ((options.pop(f"{end}_cpu"), options.pop(f"{end}_memory")) for end in ("min", "max"))
        for resource, low, high in zip(("cpu", "memory"), least, most, strict=True):
            if low > high:  # never of NaN
                raise click.UsageError(f"--min-{resource} is more than --max-{resource}")
        return command(bounds=RequestBounds(least, most), **options)

    wrapped: Any = bounded
    for option in reversed((*_SELECTION_OPTIONS, *_SOURCE_OPTIONS, *_RULE_OPTIONS, *_OUTPUT_OPTIONS)):
        wrapped = option(wrapped)
    decorated: F = wrapped
    return decorated
