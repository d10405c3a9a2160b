"""`trellis simulate`: simulates a fleet, a dump or a recording under several sizing policies, without a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trellis.base.wording import pluralize
from trellis.cli.interrupts import INTERRUPTED, catch_interrupt
from trellis.cli.output_files import check_writable, write_report
from trellis.cli.progress import FormatSpeed, show_progress

if TYPE_CHECKING:
    from trellis.sim.fleet import Fleet
    from trellis.sim.results import NotPlayed


_HOUR, _DAY = 3_600.0, 86_400.0


@click.command(name="simulate")
@click.argument("scenario", required=False, metavar="[SCENARIO]", type=click.Path(path_type=Path))
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
@click.option(
    "--dump",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Play the cluster that `trellis dump` has collected, with its own autoscalers. Takes no SCENARIO.",
)
@click.option(
    "--recommenders",
    metavar="NAME[,NAME...]",
    default="",
    help="With --dump: also with a VPA over every workload, by each of these recommenders.",
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
    dump: Path | None,
    recommenders: str,
) -> None:
    """Play a fleet through time, sized in several ways, and compare.

    A scenario says which nodes and workloads there are, what the workloads use, and which objects size them in each
    variant. Decisions are made by the code that makes them in a cluster; nodes, scheduler, kubelets and controllers
    are a model. The same scenario and seed give the same result.

    \b
        trellis simulate examples/simulate/small.yaml --html report.html
        trellis simulate fleet.yaml --only fixed,seasonal --csv figures.csv
        trellis simulate --replay updater.jsonl.gz
        trellis simulate --dump cluster.jsonl.gz --recommenders default,seasonal

    Exit status: 0 done, 1 the scenario has errors, a variant failed or a replay differs,
    2 the command could not run or a recording has no decision, 130 stopped by Ctrl-C, with what there was so far.
    """  # noqa: D301 -- click wants the backspace character itself
    if [scenario, replay, dump].count(None) != 2:
        raise click.UsageError("give a SCENARIO, a recording with --replay, or a dump with --dump")
    if recommenders and dump is None:
        raise click.UsageError("--recommenders goes with --dump; a SCENARIO names them in its variants")
    if replay is not None:
        _replay(replay)
        return
    outputs = {"--html": html, "--json": json_, "--csv": csv_}
    check_writable(outputs)
    names = [name for name in recommenders.split(",") if name]
    notes: Sequence[str] = ()
    not_played: Sequence[NotPlayed] | None = None
    if scenario is not None:
        fleet = _load_scenario(scenario, seed)
    elif dump is not None:
        fleet, notes, not_played = _load_dump(dump, names, seed)
    _simulate(fleet, (notes, not_played), outputs, [name for name in only.split(",") if name], processes, quiet=quiet)


def _load_scenario(scenario: Path, seed: int | None) -> Fleet:
    from trellis.reports.findings import format_findings  # noqa: PLC0415 -- NumPy comes with it; --help does not wait
    from trellis.sim.scenario.files import load_scenario  # noqa: PLC0415

    try:
        loaded = load_scenario(scenario, seed=seed)
    except OSError as error:
        raise click.UsageError(f"{scenario}: {error.strerror or error}") from error
    for line in format_findings(loaded.findings):
        click.echo(line, err=True)
    if loaded.fleet is None:
        sys.exit(1)
    return loaded.fleet


def _load_dump(
    dump: Path, recommenders: Sequence[str], seed: int | None
) -> tuple[Fleet, Sequence[str], Sequence[NotPlayed]]:
    """The fleet, what had to be assumed, and what is not played."""
    from trellis.cli.dump_reader import read_dump, read_node_groups  # noqa: PLC0415
    from trellis.sim.dump.fleet import build_fleet_from_dump  # noqa: PLC0415

    collected = read_dump(dump)
    groups = read_node_groups(collected)
    loaded = build_fleet_from_dump(collected, dump.name, recommenders=recommenders, seed=seed, groups=groups)
    cut = [] if collected.is_complete else ["the dump is cut off: what came after its last line is missing"]
    return loaded.fleet, [*cut, *loaded.notes], loaded.not_played


def _simulate(
    fleet: Fleet,
    remarks: tuple[Sequence[str], Sequence[NotPlayed] | None],
    outputs: dict[str, Path | None],
    only: list[str],
    processes: int,
    *,
    quiet: bool,
) -> None:
    from msgspec.structs import replace  # noqa: PLC0415 -- see above

    from trellis.reports.simulation import report  # noqa: PLC0415
    from trellis.reports.text.numbers import format_days  # noqa: PLC0415
    from trellis.sim.run import simulate  # noqa: PLC0415
    from trellis.sim.scenario.files import select_variants  # noqa: PLC0415

    fleet = select_variants(fleet, only) if only else fleet
    clock = fleet.clock
    facts = [pluralize(len(fleet.workloads), "workload"), format_days(clock.steps * clock.step)]
    facts.append(pluralize(len(fleet.variants), "variant"))
    with catch_interrupt("stopping; what there is so far follows") as stop_requested:
        if not quiet:
            click.echo(f"{fleet.name}: {', '.join(facts)}", err=True)
        with show_progress(
            [variant.name for variant in fleet.variants], _choose_speed_format(clock.step), quiet=quiet
        ) as report_progress:
            result = simulate(
                fleet,
                progress=lambda progress: report_progress(progress.variant, progress.done, progress.steps),
                stop=stop_requested,
                processes=processes,
            )
    notes, not_played = remarks
    result = replace(result, notes=[*notes, *result.notes])
    if not_played is not None:
        result = replace(result, not_played=list(not_played))
    write_report(report, result, outputs)
    if stop_requested():
        sys.exit(INTERRUPTED)
    if result.partial:
        sys.exit(1)


def _choose_speed_format(step: float) -> FormatSpeed:
    """Steps a second, as days a second, or hours where a day takes many."""
    return lambda steps: (
        f"{steps * step / _DAY:,.1f} days/s" if steps * step >= _DAY else f"{steps * step / _HOUR:,.1f} h/s"
    )


def _replay(recording: Path) -> None:
    from trellis.cli.dump_reader import name_file_in_errors  # noqa: PLC0415 -- see above
    from trellis.runtime.recorder import read_recording  # noqa: PLC0415
    from trellis.sim.replay.replay import replay  # noqa: PLC0415

    with name_file_in_errors(recording):
        report = replay(read_recording(recording))
    click.echo(f"{report.component} of release {report.release}: {report}")
    for difference in report.differences[1:]:
        click.echo(f"  {difference}")
    if report.different > len(report.differences):
        click.echo(f"  and {report.different - len(report.differences)} more")
    if report.different:
        sys.exit(1)
    if not report.decisions:
        click.echo(f"trellis: {recording}: there is no decision in it to compare; record for longer", err=True)
        sys.exit(2)
