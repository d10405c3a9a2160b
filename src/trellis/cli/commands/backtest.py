"""`trellis backtest`: scores what recommenders would have requested for recorded usage, without a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trellis.cli.interrupts import INTERRUPTED, catch_interrupt
from trellis.cli.options import (
    history_option,
    machine_option,
    prometheus_config_option,
    read_machine,
    refuse_with_files,
    resolution_option,
)
from trellis.cli.output_files import check_writable, write_report
from trellis.cli.progress import show_progress

if TYPE_CHECKING:
    from trellis.sim.backtest.request import BacktestRequest
    from trellis.sim.backtest.results import BacktestResult
    from trellis.sources.series.tables import LoadedSeries


# As `trellis.sim.backtest.limits` has them, which --help does not wait for; a test compares.
_MEASURES = ("footprint", "time-over", "overrun", "memory-footprint", "kills")


@click.command(name="backtest")
@click.argument("traces", nargs=-1, metavar="[FILE|DIR]...")
@click.option(
    "--recommenders",
    default="default,seasonal,adaptive",
    show_default=True,
    metavar="NAME[,NAME...]",
    help="What to replay. The others are held against the first.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME.PARAMETER=VALUE",
    help="Another value for a parameter. `trellis recommenders` lists them.",
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME.PARAMETER=A:B:STEP",
    help="One more variant for each value from A to B, or of a list with commas. `percentile` and `margin` are short "
    "for the parameters they are part of.",
)
@click.option("--step", default="1h", show_default=True, metavar="DURATION", help="How often a recommender is asked.")
@click.option(
    "--warm-up",
    default="7d",
    show_default=True,
    metavar="DURATION",
    help="What is not scored at the beginning; of a short series at most two fifths.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="By what fraction a recommendation must differ from what is requested to be applied.",
)
@machine_option
@click.option("--prometheus-url", metavar="URL", help="Take series from Prometheus, or what speaks its HTTP API.")
@click.option(
    "--namespace", "namespaces", multiple=True, metavar="PATTERN", help="Only of such namespaces, as `team-*`."
)
@history_option("14d")
@resolution_option
@prometheus_config_option
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="one for each core",
    help="How many processes share the work.",
)
@click.option("--html", type=click.Path(path_type=Path), help="Write a report of one file to look at in a browser.")
@click.option(
    "--json", "json_", type=click.Path(path_type=Path), help="Write everything as JSON; - is standard output."
)
@click.option("--csv", "csv_", type=click.Path(path_type=Path), help="Write a row for each series under each variant.")
@click.option(
    "--fail-above",
    multiple=True,
    metavar="MEASURE=RATIO",
    help="Fail if a variant has more than so many times what the first has, or if nothing was scored. Measures: "
    f"{', '.join(_MEASURES)}.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def command(
    traces: tuple[str, ...],
    *,
    html: Path | None,
    json_: Path | None,
    csv_: Path | None,
    fail_above: tuple[str, ...],
    processes: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Score recommenders on recorded usage.

    Each is asked again and again what to request, from what was used until then, and held against what was used next.
    Usage is read from CSV files, as they are or compressed, from Parquet files, from directories of them, and from
    Prometheus. A table needs a column `timestamp` and `cpu_cores`, `memory_bytes` or both; a column `series` where it
    has more than one.

    \b
        trellis backtest usage.csv
        trellis backtest traces/ --set seasonal.horizon=2h --html report.html
        trellis backtest traces/ --sweep default.percentile=0.8:0.99:0.05
        trellis backtest --prometheus-url http://localhost:9090 --namespace shop

    Exit status: 0 done, 1 a series could not be used or --fail-above holds, 2 the command could not run or had nothing
    to compare for --fail-above, 130 stopped by Ctrl-C, with what there was so far.
    """  # noqa: D301 -- click wants the backspace character itself
    if not traces and not options["prometheus_url"]:
        raise click.UsageError("give files or directories with usage, or --prometheus-url")
    if options["namespaces"] and not options["prometheus_url"]:
        raise click.UsageError("--namespace goes with --prometheus-url; of files all series are scored")
    if not options["prometheus_url"]:
        refuse_with_files("history", "resolution", "prometheus_config")
    outputs = {"--html": html, "--json": json_, "--csv": csv_}
    check_writable(outputs)
    limits = _parse_limits(fail_above)
    result, is_stopped = _replay(traces, processes, quiet=quiet, **options)
    if result is None:
        sys.exit(INTERRUPTED if is_stopped else 2)
    from trellis.reports.backtest import report  # noqa: PLC0415 -- see below
    from trellis.sim.backtest.limits import find_exceeded, find_uncompared  # noqa: PLC0415

    write_report(report, result, outputs)
    worse, missing = list(find_exceeded(result, limits)), list(find_uncompared(result, limits))
    for line in (*worse, *(f"--fail-above: {line}" for line in missing)):
        click.echo(f"trellis: {line}", err=True)
    if is_stopped:
        sys.exit(INTERRUPTED)
    if worse or result.left_out:
        sys.exit(1)
    if missing:
        sys.exit(2)


def _replay(
    traces: tuple[str, ...], processes: int, *, quiet: bool, **options: Any
) -> tuple[BacktestResult | None, bool]:
    """What came of it, and whether it was stopped; None if there is nothing to show, which has been said."""
    from trellis.sim.backtest.run import backtest  # noqa: PLC0415 -- NumPy comes with it, for which --help does not wait
    from trellis.sources.series.files import find_parts  # noqa: PLC0415

    request = _build_request(**options)
    parts = find_parts(traces)
    loaded = _read_prometheus(quiet=quiet, **options) if options["prometheus_url"] else None
    problems = [str(error) for error in (*parts.problems, *(loaded.problems if loaded else ()))]
    with (
        catch_interrupt("stopping; what there is so far follows") as stop_requested,
        show_progress(["replaying"], lambda samples: f"{samples:,.0f} samples/s", quiet=quiet) as report_progress,
    ):
        result = backtest(
            request,
            parts.parts,
            loaded.series if loaded else (),
            processes=processes,
            progress=lambda progress: report_progress("replaying", progress.done, progress.total),
            stop=stop_requested,
        )
        is_stopped = stop_requested()
    skipped = [*problems, *result.left_out]
    if not result.facts:
        for line in skipped or ["stopped before anything was finished"]:
            click.echo(f"trellis: {line}", err=True)
        return None, is_stopped
    from msgspec.structs import replace  # noqa: PLC0415 -- see above

    return replace(result, left_out=skipped, notes=[*(loaded.notes if loaded else ()), *result.notes]), is_stopped


def _build_request(
    *,
    recommenders: str,
    sets: tuple[str, ...],
    sweeps: tuple[str, ...],
    step: str,
    warm_up: str,
    threshold: float,
    machine: str,
    **_others: Any,
) -> BacktestRequest:
    from trellis.controllers.recommender.plugins.entry_points import find_plugins  # noqa: PLC0415 -- see above
    from trellis.sim.backtest.request import BacktestTerms, build_request  # noqa: PLC0415

    terms = BacktestTerms(
        step=_parse_seconds("--step", step, least=60.0),
        warm_up=_parse_seconds("--warm-up", warm_up),
        threshold=threshold,
        machine=read_machine(machine),
    )
    installed = {name: plugins[0].value for name, plugins in find_plugins().items() if len(plugins) == 1}
    names = [name.strip() for name in recommenders.split(",") if name.strip()]
    return build_request(names, sets, sweeps, terms, installed)


def _read_prometheus(
    *,
    prometheus_url: str,
    prometheus_config: Path | None,
    namespaces: tuple[str, ...],
    history: str,
    resolution: str,
    quiet: bool,
    **_others: Any,
) -> LoadedSeries:
    from trellis.cli.prometheus_series import PrometheusOptions, read_prometheus_series  # noqa: PLC0415 -- for those who ask Prometheus

    options = PrometheusOptions(prometheus_url, history, resolution, prometheus_config)
    return read_prometheus_series(options, namespaces, quiet=quiet)


def _parse_limits(texts: tuple[str, ...]) -> dict[str, float]:
    from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- see above
    from trellis.sim.backtest.limits import read_limits  # noqa: PLC0415

    try:
        return read_limits(texts)
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint="--fail-above") from error


def _parse_seconds(flag: str, text: str, least: float = 0.0) -> float:
    from trellis.base.errors import InvalidDuration  # noqa: PLC0415 -- see above
    from trellis.sources.prometheus.durations import parse_prometheus_duration  # noqa: PLC0415

    try:
        seconds = parse_prometheus_duration(text).total_seconds()
    except InvalidDuration:
        raise click.BadParameter(f'"{text}" is no duration such as 1h or 7d', param_hint=flag) from None
    if seconds < least:
        raise click.BadParameter(f'"{text}" is too short, {least:g} s is the least', param_hint=flag)
    return seconds
