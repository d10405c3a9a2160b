"""`trellis simulate`: simulates a fleet, a dump or a recording under several sizing policies, without a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trellis.base.wording import pluralize
from trellis.cli.command_class import TrellisCommand
from trellis.cli.input_files import STANDARD_INPUT, open_input, read_input
from trellis.cli.interrupts import INTERRUPTED, catch_interrupt
from trellis.cli.options import complete, processes_option, quiet_option, refuse_options
from trellis.cli.output_formats import (
    Output,
    check_older_files,
    encode_as_yaml,
    join_lines,
    older_file_option,
    output_options,
    read_documentation,
    write_result,
)
from trellis.cli.progress import FormatSpeed, show_progress
from trellis.cli.standard_streams import get_message_width, write_message

if TYPE_CHECKING:
    from trellis.sim.fleet import Fleet
    from trellis.sim.replay.replay import ReplayReport
    from trellis.sim.results import NotPlayed, RunResult


_HOUR, _DAY = 3_600.0, 86_400.0


# The formats of simulations and backtests, and of replays.
REPORT_FORMATS = ("table", "json", "yaml", "csv", "html", "markdown")
_REPLAY_FORMATS = ("table", "json", "yaml")
_FILE = click.Path(path_type=Path, allow_dash=True)


@click.command(name="simulate", cls=TrellisCommand)
@click.argument("scenario", required=False, metavar="[SCENARIO]", type=_FILE)
@output_options(REPORT_FORMATS)
@older_file_option("html")
@older_file_option("json")
@older_file_option("csv")
@click.option("--only", metavar="VARIANT[,VARIANT...]", default="", help="Run only these variants of the scenario.")
@click.option("--seed", type=int, metavar="N", help="Seed of all random numbers, instead of the scenario's.")
@click.option(
    "--dump",
    type=_FILE,
    metavar="FILE",
    help="Simulate the cluster in a file that `trellis dump` wrote, with its own autoscalers, instead of a SCENARIO.",
)
@click.option(
    "--recommenders",
    metavar="NAME[,NAME...]",
    default="",
    shell_complete=complete("recommenders"),
    help="With --dump: add a variant for each recommender, with a VPA for every workload.",
)
@click.option(
    "--replay",
    type=_FILE,
    metavar="FILE",
    help="Repeat the decisions in a recording that a component wrote with --record, and compare. Takes no SCENARIO.",
)
@processes_option
@quiet_option
def command(
    scenario: Path | None,
    *,
    output: Output,
    html_file: Path | None,
    json_file: Path | None,
    csv_file: Path | None,
    only: str,
    seed: int | None,
    processes: int,
    quiet: bool,
    replay: Path | None,
    dump: Path | None,
    recommenders: str,
) -> None:
    """Simulate a cluster over weeks, and compare policies.

    A scenario lists nodes, workloads and what they use, and the autoscaling objects of each variant. The decisions
    are made by the code that runs in a cluster; nodes, scheduler, kubelets and controllers are a model. The same
    scenario and seed give the same result. SCENARIO may be - for standard input.

    \b
        trellis simulate examples/simulate/small.yaml
        trellis simulate fleet.yaml --output-file report.html
        trellis simulate fleet.yaml --only fixed,seasonal -o csv
        trellis simulate --dump cluster.jsonl.gz --recommenders default,seasonal
        trellis simulate --replay updater.jsonl.gz

    \b
    Exit status:
      0    done
      1    the scenario has errors, a variant failed, or a replay differs
      2    the command could not run, or the recording has no decision
      130  interrupted by Ctrl-C; the results so far are printed
    """  # noqa: D301 -- click wants the backspace character itself
    if [scenario, replay, dump].count(None) != 2:
        raise click.UsageError("give one of: a SCENARIO, a dump with --dump, a recording with --replay")
    if recommenders and dump is None:
        raise click.UsageError("--recommenders needs --dump; a SCENARIO names recommenders in its variants")
    if replay is not None:
        _replay(replay, output)
        return
    older_files = {"html": html_file, "json": json_file, "csv": csv_file}
    check_older_files(output, older_files)
    names = [name for name in recommenders.split(",") if name]
    notes: Sequence[str] = ()
    not_played: Sequence[NotPlayed] | None = None
    if scenario is not None:
        fleet = _load_scenario(scenario, seed)
    elif dump is not None:
        with open_input(dump) as path:
            fleet, notes, not_played = _load_dump(path, names, seed)
    variants = [name for name in only.split(",") if name]
    result, stopped = _simulate(fleet, (notes, not_played), variants, processes, quiet=quiet)
    from trellis.reports.simulation import report  # noqa: PLC0415 -- NumPy comes with it; --help does not wait

    write_result(build_report_formats(report, result), output, older_files)
    if stopped:
        sys.exit(INTERRUPTED)
    if result.partial:
        sys.exit(1)


def build_report_formats(report: Any, result: Any) -> Mapping[str, Callable[[], str | bytes]]:
    """The formats of a simulation or a backtest, by name; `report` is the module that renders the result."""
    return {
        "table": join_lines(lambda width: report.as_text(result, width)),
        "json": lambda: report.as_json(result),
        "yaml": encode_as_yaml(lambda: report.as_json(result)),
        "csv": lambda: report.as_csv(result),
        "html": lambda: report.as_html(result, read_documentation()),
        "markdown": lambda: report.as_markdown(result),
    }


def _load_scenario(scenario: Path, seed: int | None) -> Fleet:
    from trellis.core.lint.manifests import ManifestSource  # noqa: PLC0415 -- NumPy comes with the rest
    from trellis.reports.findings import format_findings  # noqa: PLC0415
    from trellis.sim.scenario.files import parse_scenario  # noqa: PLC0415

    try:
        name, content = read_input(scenario)
    except OSError as error:
        raise click.UsageError(f"{scenario}: {error.strerror or error}") from error
    # What a scenario from standard input names lies in the working directory.
    directory = Path() if str(scenario) == STANDARD_INPUT else scenario.parent
    loaded = parse_scenario(ManifestSource(name, content), directory, seed=seed)
    for line in format_findings(loaded.findings, width=get_message_width()):
        click.echo(line, err=True)
    if loaded.fleet is None:
        sys.exit(1)
    return loaded.fleet


def _load_dump(
    dump: Path, recommenders: Sequence[str], seed: int | None
) -> tuple[Fleet, Sequence[str], Sequence[NotPlayed]]:
    """The fleet, the assumptions, and the objects that are not simulated."""
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
    only: list[str],
    processes: int,
    *,
    quiet: bool,
) -> tuple[RunResult, bool]:
    """The result, and whether Ctrl-C ended the run early."""
    from msgspec.structs import replace  # noqa: PLC0415 -- see above

    from trellis.base.errors import InvalidInput  # noqa: PLC0415
    from trellis.reports.text.numbers import format_days  # noqa: PLC0415
    from trellis.sim.run import simulate  # noqa: PLC0415
    from trellis.sim.scenario.files import select_variants  # noqa: PLC0415

    try:
        fleet = select_variants(fleet, only) if only else fleet
    except InvalidInput as error:
        raise InvalidInput(error.value, f"flag --only: {error.rule}") from error
    clock = fleet.clock
    facts = [pluralize(len(fleet.workloads), "workload"), format_days(clock.steps * clock.step)]
    facts.append(pluralize(len(fleet.variants), "variant"))
    with catch_interrupt("stopping; the results so far follow") as stop_requested:
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
    return result, stop_requested()


def _choose_speed_format(step: float) -> FormatSpeed:
    """Steps a second, as days a second, or hours where a day takes many."""
    return lambda steps: (
        f"{steps * step / _DAY:,.1f} days/s" if steps * step >= _DAY else f"{steps * step / _HOUR:,.1f} h/s"
    )


def _replay(recording: Path, output: Output) -> None:
    """Replay a recording, and write what differs."""
    refuse_options(
        *("only", "seed", "html_file", "json_file", "csv_file"),
        because="--replay repeats the decisions in a recording and simulates nothing",
    )
    if output.format not in _REPLAY_FORMATS:
        raise click.UsageError(f"--replay has no format {output.format}; choose one of {', '.join(_REPLAY_FORMATS)}")
    import msgspec  # noqa: PLC0415 -- NumPy comes with the rest

    from trellis.cli.dump_reader import name_file_in_errors  # noqa: PLC0415
    from trellis.runtime.recorder import read_recording  # noqa: PLC0415
    from trellis.sim.replay.replay import replay  # noqa: PLC0415

    with open_input(recording) as path, name_file_in_errors(path):
        report = replay(read_recording(path))
    encoded = json.dumps(msgspec.to_builtins(report), indent=2) + "\n"
    formats = {
        "table": lambda: "".join(f"{line}\n" for line in _list_differences(report)),
        "json": lambda: encoded,
        "yaml": encode_as_yaml(encoded.encode),
    }
    write_result(formats, output)
    if report.different:
        sys.exit(1)
    if not report.decisions:
        write_message(f"{recording}: the recording has no decision to compare; record for longer")
        sys.exit(2)


def _list_differences(report: ReplayReport) -> Iterator[str]:
    yield f"{report.component} of release {report.release}: {report}"
    yield from (f"  {difference}" for difference in report.differences[1:])
    if report.different > len(report.differences):
        yield f"  and {report.different - len(report.differences)} more"
