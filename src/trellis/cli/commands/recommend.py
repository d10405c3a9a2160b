"""`trellis recommend`: advises requests for workloads, whether anything autoscales them or not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trellis.cli.interrupts import INTERRUPTED
from trellis.cli.options import cluster_access_options
from trellis.cli.output_files import check_directory, check_writable, text_width, write_output, write_texts
from trellis.cli.progress import format_plural
from trellis.cli.recommend_options import RequestBounds, recommend_options

if TYPE_CHECKING:
    from trellis.cli.survey import SurveyOutcome
    from trellis.core.advice.policy import AdvicePolicy
    from trellis.core.advice.results import SurveyAdvice


_LEFT_OUT = 10  # lines


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
    **how: Any,
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

    policy = _policy(limits, bounds, min_history, tolerance)
    priced = _read("--prices", prices, parse_prices) if prices else EXAMPLE_PRICES
    try:
        outcome = _survey(traces, suggest_buckets=suggest_buckets, **how)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    surveyed = outcome.surveyed
    if surveyed.is_partial and not surveyed.workloads and not outcome.is_stopped:
        # A report of nothing would be taken for an answer.
        for line in (*surveyed.missing, "nothing was seen that could be sized"):
            click.echo(f"trellis: {line}", err=True)
        sys.exit(2)
    advised = advise(surveyed, policy, priced, surveyed.time, parameters=outcome.parameters)
    _write(advised, output, output_file, top, buckets=suggest_buckets)
    if emit is not None:
        _emit(advised, emit[0], emit[1], update_mode)
    if outcome.is_stopped:
        sys.exit(INTERRUPTED)
    if fail_over is not None:
        _judge(advised, fail_over)


def _judge(advised: SurveyAdvice, most: float) -> None:
    """Fail if too much of what is requested is not needed, or if nothing of it could be judged."""
    share = advised.total.saved_share
    if share > most:
        click.echo(
            f"trellis: {100 * share:.1f} % of what is requested is not needed, and {100 * most:g} % is the most",
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


def _survey(traces: tuple[str, ...], **how: Any) -> SurveyOutcome:
    from trellis.cli.survey import surveyed  # noqa: PLC0415 -- see above

    return surveyed(traces, **how)


def _policy(limits: str, bounds: RequestBounds, min_history: float, tolerance: float) -> AdvicePolicy:
    from trellis.core.advice.policy import AdvicePolicy, parse_limit_rules  # noqa: PLC0415 -- see above
    from trellis.core.advice.survey.model import ResourceAmount  # noqa: PLC0415

    rules = _read("--limits", limits, parse_limit_rules) if limits else None
    policy = AdvicePolicy(
        least=ResourceAmount(*bounds.least), most=ResourceAmount(*bounds.most), tolerance=tolerance, history=min_history
    )
    if rules is None:
        return policy
    from msgspec.structs import replace  # noqa: PLC0415 -- see above

    return replace(policy, limits=rules)


def _read(option: str, text: str, read: Any) -> Any:
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

    width = text_width()
    if output_file is not None:
        write_output(output_file, lambda: render(advised, output, width, top).encode())
    else:
        click.echo(render(advised, output, width, top), nl=False)


def _emit(advised: SurveyAdvice, form: str, directory: Path, update_mode: str) -> None:
    from trellis.reports.advice.report import Emitted, manifest_files  # noqa: PLC0415 -- see above

    files = manifest_files(advised, Emitted(form), update_mode)
    write_texts(directory, files.texts)
    click.echo(f"wrote {format_plural(len(files.texts), 'file')} below {directory}", err=True)
    for left_out in files.left_out[:_LEFT_OUT]:
        workload = left_out.workload
        click.echo(f"no file for {workload.kind} {workload.namespace}/{workload.name}: {left_out.reason}", err=True)
    if len(files.left_out) > _LEFT_OUT:
        click.echo(f"... and {len(files.left_out) - _LEFT_OUT} more without a file", err=True)
