"""`trellis simulate`: what would become of a fleet, sized in several ways, without a cluster."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trellis.cli.interrupts import INTERRUPTED, asked_to_stop
from trellis.cli.output_files import STANDARD_OUTPUT, check_writable, write_out
from trellis.cli.progress import Speed, shown

if TYPE_CHECKING:
    from trellis.sim.results import RunResult

_DAY = 86_400.0
# Of a table where nobody says how wide it may be, and of any: longer lines are harder to follow.
_USUAL, _WIDEST = 100, 140


@click.command(name="simulate")
@click.argument("scenario", required=False, metavar="SCENARIO", type=click.Path(path_type=Path))
@click.option("--html", type=click.Path(path_type=Path), help="Write a report of one file to look at in a browser.")
@click.option(
    "--json", "json_", type=click.Path(path_type=Path), help="Write everything as JSON; - is standard output."
)
@click.option("--csv", "csv_", type=click.Path(path_type=Path), help="Write a row for each workload in each variant.")
@click.option("--only", metavar="VARIANT[,VARIANT...]", default="", help="Run these variants alone.")
@click.option("--seed", type=int, help="Draw everything from this seed instead of the scenario's.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="one for each core",
    help="Run so many variants at a time.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Decide again what a component that ran with --record saw, and compare. Takes no SCENARIO.",
)
def command(
    scenario: Path | None,
    *,
    html: Path | None,
    json_: Path | None,
    csv_: Path | None,
    only: str,
    seed: int | None,
    processes: int,
    quiet: bool,
    replay: Path | None,
) -> None:
    """Play a fleet through time, sized in several ways, and compare.

    A scenario says which nodes and workloads there are, what the workloads use, and which objects size them in each
    variant. Decisions are made by the code that makes them in a cluster; nodes, scheduler, kubelets and controllers
    are a model. The same scenario and seed give the same result.

    \b
    Exit status: 0 done, 1 the scenario has errors, a variant failed or a replay differs,
    2 the command could not run, 130 stopped by Ctrl-C, with what there was so far.
    """  # noqa: D301 -- click wants the backspace character itself
    if (scenario is None) == (replay is None):
        raise click.UsageError("give a SCENARIO, or a recording with --replay")
    if replay is not None:
        _replay(replay)
        return
    assert scenario is not None  # noqa: S101 -- said above
    outputs = {"--html": html, "--json": json_, "--csv": csv_}
    check_writable(outputs)
    _simulate(scenario, outputs, [name for name in only.split(",") if name], seed, processes, quiet=quiet)


def _simulate(
    scenario: Path, outputs: dict[str, Path | None], only: list[str], seed: int | None, processes: int, *, quiet: bool
) -> None:
    from trellis.reports.findings import as_lines  # noqa: PLC0415 -- NumPy comes with it, for which --help does not wait
    from trellis.sim.run import simulate  # noqa: PLC0415
    from trellis.sim.scenario_files import load_scenario, with_variants  # noqa: PLC0415

    try:
        loaded = load_scenario(scenario, seed=seed)
    except OSError as error:
        raise click.UsageError(f"{scenario}: {error.strerror or error}") from error
    for line in as_lines(loaded.findings):
        click.echo(line, err=True)
    fleet = loaded.fleet
    if fleet is None:
        sys.exit(1)
    fleet = with_variants(fleet, only) if only else fleet
    clock = fleet.clock
    days = clock.steps * clock.step / _DAY
    what = f"{len(fleet.workloads)} workloads, {days:g} days, {len(fleet.variants)} variants"
    with asked_to_stop("stopping; what there is so far follows") as is_asked:
        if not quiet:
            click.echo(f"{fleet.name}: {what}", err=True)
        with shown([each.name for each in fleet.variants], _speed(clock.step), quiet=quiet) as tell:
            result = simulate(
                fleet,
                progress=lambda each: tell(each.variant, each.done, each.steps),
                stop=is_asked,
                processes=processes,
            )
    _write(result, outputs)
    if is_asked():
        sys.exit(INTERRUPTED)
    if result.partial:
        sys.exit(1)


def _write(result: RunResult, outputs: dict[str, Path | None]) -> None:
    from trellis.reports import simulation  # noqa: PLC0415 -- see above

    if STANDARD_OUTPUT not in outputs.values():
        for line in simulation.as_text(result, min(shutil.get_terminal_size((_USUAL, 24)).columns, _WIDEST)):
            click.echo(line)
    write_out(outputs["--html"], lambda: simulation.as_html(result).encode())
    write_out(outputs["--json"], lambda: simulation.as_json(result))
    write_out(outputs["--csv"], lambda: simulation.as_csv(result).encode())


def _speed(step: float) -> Speed:
    """Steps a second, as days a second."""
    return lambda steps: f"{steps * step / _DAY:,.1f} days/s"


def _replay(recording: Path) -> None:
    from trellis.runtime.recording import recorded  # noqa: PLC0415 -- see above
    from trellis.sim.replaying import replay  # noqa: PLC0415

    report = replay(recorded(recording))
    click.echo(f"{report.component} of release {report.release}: {report}")
    if report.different:
        sys.exit(1)
