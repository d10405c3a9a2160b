"""`trellis recommend`: advises requests for workloads, whether anything autoscales them or not.

Imports only click at the top, so that `--help` does not wait for NumPy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.interrupts import INTERRUPTED
from trellis.cli.options import (
    cluster_access_options,
    complete,
    history_option,
    machine_option,
    namespaces_options,
    prometheus_config_option,
    quiet_option,
    refuse_options,
    resolution_option,
)
from trellis.cli.output_files import check_directory, get_text_width, write_texts
from trellis.cli.output_formats import HTML, Output, output_options, read_documentation, write_result
from trellis.cli.progress import format_plural
from trellis.cli.standard_streams import write_message

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
    namespaces_options("Only namespaces that match the pattern, such as `team-*`; a leading ! excludes them."),
    click.option("-l", "--selector", default="", metavar="SELECTOR", help="Only workloads with matching labels."),
    click.option(
        "--kind", "kinds", multiple=True, metavar="KIND", help="Only workloads of this kind, such as `deployment`."
    ),
    click.option(
        "--job-grouping-labels",
        "job_labels",
        default="",
        metavar="KEY[,KEY...]",
        help="Treat Jobs with the same value of one of these labels as one workload. Jobs of a CronJob always are one.",
    ),
)
_SOURCE_OPTIONS = (
    click.option(
        "--vpas", is_flag=True, help="Read recommendations from VerticalPodAutoscalers instead of computing them."
    ),
    click.option(
        "--no-cluster", is_flag=True, help="Read workloads and requests from Prometheus too, and contact no API server."
    ),
    click.option(
        "--prometheus-url",
        metavar="URL",
        help="Prometheus, or a server with its HTTP API.  [default: found by the labels of its Service]",
    ),
    click.option(
        "--prometheus-header",
        "prometheus_headers",
        multiple=True,
        metavar="NAME: VALUE",
        help="HTTP header to send with every query.",
    ),
    click.option("--prometheus-tenant", metavar="NAME", help="Tenant of Mimir, sent as the header X-Scope-OrgID."),
    prometheus_config_option,
    history_option("14d"),
    resolution_option,
    click.option(
        "--resume",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Store finished namespaces in this file, and skip those that it already holds.",
    ),
    machine_option,
)
_RULE_OPTIONS = (
    click.option(
        "--recommender",
        default="default",
        show_default=True,
        metavar="NAME",
        shell_complete=complete("recommenders"),
        help="Recommender that computes the requests.",
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="PARAMETER=VALUE",
        help="Set a parameter of the recommender. `trellis recommenders` lists the parameters.",
    ),
    click.option(
        "--limits",
        default="",
        metavar="RULE",
        help="Limits to advise: none, request (equal to the request), keep, or keep-ratio; or one rule for each "
        "resource, as in cpu=keep,memory=request.  [default: cpu=none,memory=request]",
    ),
    click.option("--min-cpu", callback=_read_amount("cpu"), metavar="QUANTITY", help="Least CPU to request."),
    click.option("--max-cpu", callback=_read_amount("cpu"), metavar="QUANTITY", help="Most CPU to request."),
    click.option("--min-memory", callback=_read_amount("memory"), metavar="QUANTITY", help="Least memory to request."),
    click.option("--max-memory", callback=_read_amount("memory"), metavar="QUANTITY", help="Most memory to request."),
    click.option(
        "--min-history",
        callback=_read_seconds,
        metavar="DURATION",
        default="1d",
        show_default=True,
        help="Advise no change for containers with less history, unless they ran out of memory.",
    ),
    click.option(
        "--tolerance",
        callback=_read_share,
        metavar="SHARE",
        default="10%",
        show_default=True,
        help="Advise no change if a request differs by this share or less.",
    ),
    click.option(
        "--prices",
        default="",
        metavar="CORE,GIB[,CURRENCY]",
        help="Price of a core and of a GiB for an hour.  [default: an example, 0.0316,0.0042,USD]",
    ),
)
_RESULT_OPTIONS = (
    output_options(FORMATS),
    click.option("--top", type=click.IntRange(min=0), default=0, metavar="N", help="Show only the first N rows."),
    click.option(
        "--suggest-buckets",
        is_flag=True,
        help="Propose an Hvpa with buckets for each scalable workload, with its cost beside the present cost.",
    ),
    click.option(
        "--emit",
        type=(click.Choice(MANIFEST_FORMS), click.Path(path_type=Path)),
        metavar=f"{'|'.join(MANIFEST_FORMS)} DIR",
        help="Write manifests to a directory: a patch for each workload that should change, a VerticalPodAutoscaler "
        "for each workload without one, or patches with a component for kustomize.",
    ),
    click.option(
        "--update-mode",
        type=click.Choice(UPDATE_MODES),
        metavar="MODE",
        default="Off",
        show_default=True,
        help=f"Mode of the VerticalPodAutoscalers to write: {', '.join(UPDATE_MODES)}.",
    ),
    click.option(
        "--fail-on-savings",
        callback=_read_share,
        metavar="SHARE",
        help="Exit with 1 if more than this share of the cost of all requests can be saved, and with 2 if no container "
        "can be assessed.",
    ),
    # The older name, which reads like "failover".
    click.option("--fail-over", callback=_read_share, metavar="SHARE", hidden=True),
    quiet_option,
)


def recommend_options(command: F) -> F:
    """Add all options in the order of the lists above; the four bounds and the two names of a limit become one each."""

    @wraps(command)
    def bounded(**options: Any) -> Any:
        least, most = ((options.pop(f"{end}_cpu"), options.pop(f"{end}_memory")) for end in ("min", "max"))
        for resource, low, high in zip(("cpu", "memory"), least, most, strict=True):
            if low > high:  # never of NaN
                raise click.UsageError(f"--min-{resource} is more than --max-{resource}")
        older_limit = options.pop("fail_over")
        if options["fail_on_savings"] is None:
            options["fail_on_savings"] = older_limit
        return command(bounds=RequestBounds(least, most), **options)

    wrapped: Any = bounded
    for option in reversed((*_SELECTION_OPTIONS, *_SOURCE_OPTIONS, *_RULE_OPTIONS, *_RESULT_OPTIONS)):
        wrapped = option(wrapped)
    decorated: F = wrapped
    return decorated


_MAX_SKIPPED_SHOWN = 10  # lines


@click.command(name="recommend", cls=TrellisCommand)
@click.argument("traces", nargs=-1, metavar="[FILE|DIR|-]...", type=click.Path())
@recommend_options
@cluster_access_options
def command(
    traces: tuple[str, ...],
    *,
    output: Output,
    emit: tuple[str, Path] | None,
    update_mode: str,
    fail_on_savings: float | None,
    top: int,
    limits: str,
    bounds: RequestBounds,
    min_history: float,
    tolerance: float,
    prices: str,
    suggest_buckets: bool,
    **options: Any,
) -> None:
    """Advise requests and limits, with savings and risks.

    No autoscaler needs to be installed, and nothing is changed. Workloads and their requests are read from the
    cluster, and usage from its Prometheus, Thanos, VictoriaMetrics or Mimir. With --no-cluster everything comes from
    Prometheus. With files, or - for standard input, usage comes from them, as for `trellis backtest`.

    \b
        trellis recommend
        trellis recommend -n 'team-*' --recommender seasonal --top 20
        cat usage.csv | trellis recommend -
        trellis recommend --output-file sizes.html
        trellis recommend --prometheus-url http://localhost:9090 --no-cluster
        trellis recommend --vpas --emit kustomize sizes/
        trellis recommend --fail-on-savings 20% -o markdown
        trellis recommend -n shop --suggest-buckets -o yaml

    \b
    Exit status:
      0    done, also if something could not be read
      1    more can be saved than --fail-on-savings allows
      2    the command could not run, found no workload, or --fail-on-savings
           could assess none
      130  interrupted by Ctrl-C; the results so far are printed
    """  # noqa: D301 -- click wants the backspace character itself
    if emit is None or emit[0] != "vpa":
        refuse_options("update_mode", because="needs --emit vpa")
    if emit is not None:
        if suggest_buckets:
            raise click.UsageError("--suggest-buckets prints manifests with -o yaml: it cannot be combined with --emit")
        if traces:
            raise click.UsageError(
                "--emit needs a cluster or Prometheus: files of usage do not name the kinds of workloads"
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
        for line in (*surveyed.missing, "there is no workload to advise on"):
            write_message(str(line))
        sys.exit(2)
    advised = advise(surveyed, policy, priced, surveyed.time, parameters=outcome.parameters)
    notices = _write_manifests(advised, emit[0], emit[1], update_mode) if emit is not None else []
    _write(advised, output, top, buckets=suggest_buckets)
    for notice in notices:
        click.echo(notice, err=True)
    if outcome.is_stopped:
        sys.exit(INTERRUPTED)
    if fail_on_savings is not None:
        _check_savings(advised, fail_on_savings)


def _check_savings(advised: SurveyAdvice, limit: float) -> None:
    """Fail if too much of the cost of all requests can be saved, or if no container could be assessed."""
    share = advised.total.saved_share
    if share > limit:
        write_message(
            f"--fail-on-savings: {100 * share:.1f} % of the cost of all requests can be saved; {100 * limit:g} % is "
            "allowed"
        )
        sys.exit(1)
    if not advised.compared:
        write_message(
            "--fail-on-savings: no container has both known requests and enough known usage; check the namespaces, "
            "--min-history and what is listed above"
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


def _write(advised: SurveyAdvice, output: Output, top: int, *, buckets: bool) -> None:
    if buckets:
        from trellis.reports.buckets.report import render_buckets as render  # noqa: PLC0415 -- see above
    else:
        from trellis.reports.advice.report import render_advice as render  # noqa: PLC0415 -- see above

    documentation = (read_documentation(),) if HTML in output.formats else ()
    formats = {name: partial(render, advised, name, get_text_width(), top, *documentation) for name in output.formats}
    write_result(formats, output)


def _write_manifests(advised: SurveyAdvice, form: str, directory: Path, update_mode: str) -> list[str]:
    """Write the manifests; returns messages about them."""
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
