"""`trellis backtest`: scores what recommenders would have requested for recorded usage, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.commands.simulate import REPORT_FORMATS, build_report_formats
from trellis.cli.input_files import RestoreNames, open_inputs
from trellis.cli.interrupts import INTERRUPTED, catch_interrupt
from trellis.cli.options import (
    complete,
    history_option,
    machine_option,
    namespaces_options,
    processes_option,
    prometheus_config_option,
    quiet_option,
    read_machine,
    refuse_options,
    refuse_with_files,
    resolution_option,
)
from trellis.cli.output_formats import Output, check_older_files, older_file_option, output_options, write_result
from trellis.cli.progress import show_progress
from trellis.cli.standard_streams import write_message

if TYPE_CHECKING:
    from trellis.sim.backtest.request import BacktestRequest
    from trellis.sim.backtest.results import BacktestResult
    from trellis.sources.series.tables import LoadedSeries


# As `trellis.sim.backtest.limits` has them, which --help does not wait for; a test compares.
_MEASURES = ("footprint", "time-over", "overrun", "memory-footprint", "kills")


@click.command(name="backtest", cls=TrellisCommand)
@click.argument("traces", nargs=-1, metavar="[FILE|DIR|-]...", type=click.Path())
@click.option(
    "--recommenders",
    default="default,seasonal,adaptive",
    show_default=True,
    metavar="NAME[,NAME...]",
    shell_complete=complete("recommenders"),
    help="Recommenders to score. The first is the baseline of the comparison.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME.PARAMETER=VALUE",
    help="Set a parameter of a recommender. `trellis recommenders` lists the parameters.",
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME.PARAMETER=A:B:STEP",
    help="Add a variant for each value from A to B, or for each value of a list with commas. `percentile` and `margin` "
    "stand for all parameters with these words in their names.",
)
@click.option("--step", default="1h", show_default=True, metavar="DURATION", help="Time between two recommendations.")
@click.option(
    "--warm-up",
    default="7d",
    show_default=True,
    metavar="DURATION",
    help="Time at the start of a series that is not scored; at most two fifths of a short series.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    metavar="FRACTION",
    default=0.05,
    show_default=True,
    help="Apply a recommendation only if it differs from the request by more than this fraction.",
)
@machine_option
@click.option("--prometheus-url", metavar="URL", help="Read usage from this Prometheus, or a server with its HTTP API.")
@namespaces_options("With --prometheus-url: only namespaces that match the pattern, such as `team-*`.")
@history_option("14d")
@resolution_option
@prometheus_config_option
@output_options(REPORT_FORMATS)
@older_file_option("html")
@older_file_option("json")
@older_file_option("csv")
@click.option(
    "--fail-above",
    multiple=True,
    metavar="MEASURE=RATIO",
    help="Exit with 1 if a measure of a variant exceeds this multiple of the first variant's. Measures: "
    f"{', '.join(_MEASURES)}.",
)
@processes_option
@quiet_option
def command(
    traces: tuple[str, ...],
    *,
    output: Output,
    html_file: Path | None,
    json_file: Path | None,
    csv_file: Path | None,
    fail_above: tuple[str, ...],
    processes: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Score recommenders on recorded usage.

    At every step each recommender sees the usage until then, and its recommendation is compared with the usage that
    follows. Usage comes from CSV files, also compressed, from Parquet files, from directories of them, from standard
    input (-), or from Prometheus. A table needs a column `timestamp` and `cpu_cores`, `memory_bytes` or both, and a
    column `series` if it holds more than one series.

    \b
        trellis backtest usage.csv
        cat usage.csv | trellis backtest -
        trellis backtest traces/ --set seasonal.horizon=2h
        trellis backtest traces/ --output-file report.html
        trellis backtest traces/ --sweep default.percentile=0.8:0.99:0.05
        trellis backtest --prometheus-url http://localhost:9090 -n shop

    \b
    Exit status:
      0    done
      1    a series could not be used, or --fail-above applies
      2    the command could not run, or --fail-above had nothing to compare
      130  interrupted by Ctrl-C; the results so far are printed
    """  # noqa: D301 -- click wants the backspace character itself
    if not traces and not options["prometheus_url"]:
        raise click.UsageError("give files or directories with usage, - for standard input, or --prometheus-url")
    if options["namespaces"] and not options["prometheus_url"]:
        raise click.UsageError("--namespace needs --prometheus-url; of files all series are scored")
    if not options["prometheus_url"]:
        refuse_with_files("history", "resolution", "prometheus_config")
    if not traces:
        refuse_options("machine", because="only for files with usage")
    older_files = {"html": html_file, "json": json_file, "csv": csv_file}
    check_older_files(output, older_files)
    limits = _parse_limits(fail_above)
    with open_inputs(traces) as (paths, restore_names):
        result, is_stopped = _replay(tuple(paths), processes, restore_names, quiet=quiet, **options)
    if result is None:
        sys.exit(INTERRUPTED if is_stopped else 2)
    from trellis.reports.backtest import report  # noqa: PLC0415 -- see below
    from trellis.sim.backtest.limits import find_exceeded, find_uncompared  # noqa: PLC0415

    write_result(build_report_formats(report, result), output, older_files)
    worse, missing = list(find_exceeded(result, limits)), list(find_uncompared(result, limits))
    for line in (*worse, *(f"--fail-above: {line}" for line in missing)):
        write_message(line)
    if is_stopped:
        sys.exit(INTERRUPTED)
    if worse or result.left_out:
        sys.exit(1)
    if missing:
        sys.exit(2)


def _replay(
    traces: tuple[str, ...], processes: int, restore_names: RestoreNames, *, quiet: bool, **options: Any
) -> tuple[BacktestResult | None, bool]:
    """The result, and whether Ctrl-C ended the run early; None if there is none, after a message."""
    from trellis.sim.backtest.run import backtest  # noqa: PLC0415 -- NumPy comes with it, for which --help does not wait
    from trellis.sources.series.files import find_parts  # noqa: PLC0415

    request = _build_request(**options)
    parts = find_parts(traces)
    loaded = _read_prometheus(quiet=quiet, **options) if options["prometheus_url"] else None
    problems = [str(error) for error in (*parts.problems, *(loaded.problems if loaded else ()))]
    with (
        catch_interrupt("stopping; the results so far follow") as stop_requested,
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
    skipped = [restore_names(problem) for problem in (*problems, *result.left_out)]
    if not result.facts:
        for line in skipped or ["stopped before anything was finished"]:
            write_message(line)
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
