"""`trellis recommend`: advises requests for workloads, whether anything autoscales them or not.

Imports only click at the top, so that `--help` does not wait for NumPy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from trellis.cli.interrupts import INTERRUPTED
from trellis.cli.options import (
    cluster_access_options,
    history_option,
    machine_option,
    prometheus_config_option,
    resolution_option,
)
from trellis.cli.output_files import check_directory, check_writable, get_text_width, write_output, write_texts
from trellis.cli.progress import format_plural

if TYPE_CHECKING:
    from trellis.cli.survey import SurveyOutcome
    from trellis.core.advice.policy import AdvicePolicy
    from trellis.core.advice.results import SurveyAdvice


F = TypeVar("F", bound=Callable[..., Any])
ReadOption = Callable[[click.Context, click.Parameter, str | None], float]

# As `trellis.reports.advice.report` has them, which --help does not wait for; a test compares.
FORMATS = ("table", "json", "yaml", "csv", "html", "markdown")
MANIFEST_FORMS = ("patches", "vpa", "kustomize")
UPDATE_MODES = ("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace")
_PATH = click.Path(path_type=Path)


class RequestBounds(NamedTuple):
    """The least and the most that may be requested, in millicores and bytes; NaN is no bound."""

    minimum: tuple[float, float]
    maximum: tuple[float, float]


def _read_amount(resource: str) -> ReadOption:
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


def _read_seconds(_context: click.Context, _option: click.Parameter, text: str) -> float:
    from trellis.base.errors import InvalidDuration  # noqa: PLC0415 -- NumPy comes with it
    from trellis.sources.prometheus.durations import parse_prometheus_duration  # noqa: PLC0415

    try:
        return parse_prometheus_duration(text).total_seconds()
    except InvalidDuration:
        raise click.BadParameter(f'"{text}" is no duration such as 12h or 7d') from None


def _read_share(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
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
    click.option("--min-cpu", callback=_read_amount("cpu"), metavar="QUANTITY", help="Request at least so much."),
    click.option("--max-cpu", callback=_read_amount("cpu"), metavar="QUANTITY", help="Request at most so much."),
    click.option("--min-memory", callback=_read_amount("memory"), metavar="QUANTITY", help="Request at least so much."),
    click.option("--max-memory", callback=_read_amount("memory"), metavar="QUANTITY", help="Request at most so much."),
    click.option(
        "--min-history",
        callback=_read_seconds,
        metavar="DURATION",
        default="1d",
        show_default=True,
        help="Leave containers alone of which there is less, unless they lack memory.",
    ),
    click.option(
        "--tolerance",
        callback=_read_share,
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
        callback=_read_share,
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


_MAX_SKIPPED_SHOWN = 10  # lines


@click.command(name="recommend")
@click.argument("traces", nargs=-1, metavar="[FILE|DIR]...")
@recommend_options
@cluster_access_options
def command(
    traces: tuple[str, ...],
    *,
    output: str,
    output_file: Path | None,
    emit: tuple[str, Path] | None,
    update_mode: str,
    fail_over: float | None,
    top: int,
    limits: str,
    bounds: RequestBounds,
    min_history: float,
    tolerance: float,
    prices: str,
    suggest_buckets: bool,
    **options: Any,
) -> None:
    """Say what workloads should request, and what that saves or risks.

    No autoscaler needs to be there. Workloads and what they request are read from the cluster, and what they used from
    its Prometheus, Thanos, VictoriaMetrics or Mimir, which is found by the labels of its Service; or everything from
    Prometheus alone, with --no-cluster; or usage from files, as for `trellis backtest`. Nothing is changed.

    \b
        trellis recommend
        trellis recommend --namespace 'team-*' --recommender seasonal --top 20
        trellis recommend -o html --output-file sizes.html
        trellis recommend --prometheus-url http://localhost:9090 --no-cluster
        trellis recommend --vpas --emit kustomize sizes/
        trellis recommend --fail-over 20% -o markdown
        trellis recommend -n shop --suggest-buckets -o yaml

    Exit status: 0 done, also if something could not be seen, 1 --fail-over holds, 2 the command could not run, saw
    nothing, or has nothing to judge for --fail-over, 130 stopped by Ctrl-C, with what there was so far.
    """  # noqa: D301 -- click wants the backspace character itself
    check_writable({"--output-file": output_file})
    if emit is not None:
        if suggest_buckets:
            raise click.UsageError("--suggest-buckets has its manifests with -o yaml, and --emit has others")
        if traces:
            raise click.UsageError(
                "--emit needs a cluster or Prometheus: files of usage do not say of which kind it is"
            )
        check_directory("--emit", emit[1])
    from trellis.base.prices import EXAMPLE_PRICES, parse_prices  # noqa: PLC0415 -- NumPy comes with the rest
    from trellis.core.advice.advisor import advise  # noqa: PLC0415

    policy = _build_policy(limits, bounds, min_history, tolerance)
    priced = _read_option("--prices", prices, parse_prices) if prices else EXAMPLE_PRICES
    try:
        outcome = _run_survey(traces, suggest_buckets=suggest_buckets, **options)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    surveyed = outcome.result
    if surveyed.is_partial and not surveyed.workloads and not outcome.is_stopped:
        # A report of nothing would be taken for an answer.
        for line in (*surveyed.missing, "nothing was seen that could be sized"):
            click.echo(f"trellis: {line}", err=True)
        sys.exit(2)
    advised = advise(surveyed, policy, priced, surveyed.time, parameters=outcome.parameters)
    notices = _write_manifests(advised, emit[0], emit[1], update_mode) if emit is not None else []
    _write(advised, output, output_file, top, buckets=suggest_buckets)
    for notice in notices:
        click.echo(notice, err=True)
    if outcome.is_stopped:
        sys.exit(INTERRUPTED)
    if fail_over is not None:
        _check_limit(advised, fail_over)


def _check_limit(advised: SurveyAdvice, limit: float) -> None:
    """Fail if too much of what is requested is not needed, or if nothing of it could be judged."""
    share = advised.total.saved_share
    if share > limit:
        click.echo(
            f"trellis: {100 * share:.1f} % of what is requested is not needed, and {100 * limit:g} % is the most",
            err=True,
        )
        sys.exit(1)
    if not advised.compared:
        click.echo(
            "trellis: --fail-over: of no container both its requests and enough of its usage are known; "
            "look at the namespaces, at --min-history and at what is listed above",
            err=True,
        )
        sys.exit(2)


def _run_survey(traces: tuple[str, ...], **options: Any) -> SurveyOutcome:
    from trellis.cli.survey import run_survey  # noqa: PLC0415 -- see above

    return run_survey(traces, **options)


def _build_policy(limits: str, bounds: RequestBounds, min_history: float, tolerance: float) -> AdvicePolicy:
    from trellis.core.advice.policy import AdvicePolicy, parse_limit_rules  # noqa: PLC0415 -- see above
    from trellis.core.advice.survey.model import ResourceAmount  # noqa: PLC0415

    rules = _read_option("--limits", limits, parse_limit_rules) if limits else None
    policy = AdvicePolicy(
        least=ResourceAmount(*bounds.minimum),
        most=ResourceAmount(*bounds.maximum),
        tolerance=tolerance,
        history=min_history,
    )
    if rules is None:
        return policy
    from msgspec.structs import replace  # noqa: PLC0415 -- see above

    return replace(policy, limits=rules)


def _read_option(option: str, text: str, read: Any) -> Any:
    from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- see above

    try:
        return read(text)
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _write(advised: SurveyAdvice, output: str, output_file: Path | None, top: int, *, buckets: bool) -> None:
    if buckets:
        from trellis.reports.buckets.report import render_buckets as render  # noqa: PLC0415 -- see above
    else:
        from trellis.reports.advice.report import render_advice as render  # noqa: PLC0415 -- see above

    width = get_text_width()
    if output_file is not None:
        if write_output(output_file, lambda: render(advised, output, width, top).encode()):
            click.echo(f"wrote {output_file}", err=True)
    else:
        click.echo(render(advised, output, width, top), nl=False)


def _write_manifests(advised: SurveyAdvice, form: str, directory: Path, update_mode: str) -> list[str]:
    """Write the manifests; returns what is to be said of them."""
    from trellis.reports.advice.report import ManifestForm, build_manifest_files  # noqa: PLC0415 -- see above

    files = build_manifest_files(advised, ManifestForm(form), update_mode)
    write_texts(directory, files.texts)
    notices = [f"wrote {format_plural(len(files.texts), 'file')} below {directory}"]
    for skipped in files.skipped[:_MAX_SKIPPED_SHOWN]:
        workload = skipped.workload
        notices.append(f"no file for {workload.kind} {workload.namespace}/{workload.name}: {skipped.reason}")
    if len(files.skipped) > _MAX_SKIPPED_SHOWN:
        notices.append(f"... and {len(files.skipped) - _MAX_SKIPPED_SHOWN} more without a file")
    return notices
