"""Loads a scenario from a file, with the files that it names beside it: read, linted and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trellis.api.registry import SCENARIO
from trellis.base.errors import InvalidInput, InvalidScenario, InvalidSeries
from trellis.base.names import suggest_name
from trellis.base.reasons import Reason, Severity
from trellis.core.lint.check import check
from trellis.core.lint.cross_checks import TrellisObject
from trellis.core.lint.findings import NOT_AN_OBJECT, UNKNOWN_KIND, UNREADABLE, Finding
from trellis.core.lint.manifests import ManifestSource
from trellis.sim.fleet import Fleet
from trellis.sim.scenario.compiler import compile_scenario, read_scenario
from trellis.sim.scenario.usage import TraceReader
from trellis.sources.series.files import find_parts, read_part
from trellis.sources.series.series import Series
from trellis.sources.series.tables import LoadedSeries

NO_SCENARIO = Reason("NoScenario", "A file for a simulation contains no Scenario or more than one.", Severity.ERROR)
_SHOWN = 5
# Findings that may be why a file seems to hold no Scenario; others are about objects that a simulation does not read.
_ABOUT_KINDS = frozenset({UNREADABLE, NOT_AN_OBJECT, UNKNOWN_KIND})


class LoadedScenario(msgspec.Struct, frozen=True):
    """The fleet, if nothing is wrong; findings are errors and warnings, each with file, line and field."""

    findings: tuple[Finding, ...]
    fleet: Fleet | None = None


def load_scenario(path: Path, traces: TraceReader | None = None, *, seed: int | None = None) -> LoadedScenario:
    """Load the scenario of a file, with another seed if one is given; `OSError` if the file itself cannot be read."""
    return parse_scenario(ManifestSource(str(path), path.read_bytes()), path.parent, traces, seed=seed)


def parse_scenario(
    source: ManifestSource, directory: Path, traces: TraceReader | None = None, *, seed: int | None = None
) -> LoadedScenario:
    """The same of a text; the files that it names are relative to the directory."""
    result = check([source])
    scenarios = [candidate for candidate in result.objects if candidate.kind is SCENARIO]
    if not scenarios:
        related = tuple(finding for finding in result.findings if finding.reason in _ABOUT_KINDS)
        if any(finding.reason is UNREADABLE for finding in related):
            return LoadedScenario(related)  # the Scenario may be what cannot be read
        hint = "a simulation needs one; to check other manifests, use `trellis check`"
        return LoadedScenario((*related, _build_finding(source.name, f"the file contains no Scenario; {hint}")))
    if result.errors:
        return LoadedScenario(result.findings)
    if len(scenarios) > 1:
        message = f"the file contains {len(scenarios)} Scenarios; a simulation needs exactly one"
        return LoadedScenario((*result.findings, _build_finding(source.name, message)))
    beside = FilesBeside(directory)
    return _compile(scenarios[0], result.findings, traces or beside.trace, beside, seed)


def _build_finding(source: str, message: str) -> Finding:
    return Finding(source, 1, 1, 1, NO_SCENARIO, message)


def select_variants(fleet: Fleet, names: Sequence[str]) -> Fleet:
    """The fleet with only these variants, in their own order; `InvalidInput` for an unknown name."""
    list_names = {variant.name for variant in fleet.variants}
    for name in names:
        if name not in list_names:
            guess = suggest_name(name, list_names)
            hint = f' (did you mean "{guess}"?)' if guess else ""
            raise InvalidInput(name, f"is not a variant of this scenario{hint}; it has {', '.join(sorted(list_names))}")
    return msgspec.structs.replace(
        fleet, variants=tuple(variant for variant in fleet.variants if variant.name in names)
    )


def _compile(
    scenario_object: TrellisObject,
    findings: tuple[Finding, ...],
    traces: TraceReader,
    beside: FilesBeside,
    seed: int | None,
) -> LoadedScenario:
    scenario = read_scenario(scenario_object.manifest.value)
    if seed is not None:
        scenario = msgspec.structs.replace(scenario, spec=msgspec.structs.replace(scenario.spec, seed=seed))
    try:
        fleet = compile_scenario(scenario, traces=traces, files=beside.read)
    except InvalidScenario as error:
        problems: Any = error.problems
        return LoadedScenario((*findings, *(scenario_object.manifest.convert_problem(problem) for problem in problems)))
    return LoadedScenario(findings, fleet)


class FilesBeside:
    """The files that a scenario names, found from the directory that it is in. A file of series is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, LoadedSeries] = {}

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        try:
            return (self._directory / name).read_bytes()
        except OSError as error:
            raise InvalidInput(name, (error.strerror or str(error)).lower()) from error

    def trace(self, name: str, series: str | None) -> Series:
        """A series of a file, or its only one. Other series of the file need not be valid."""
        read = self._read.get(name)
        if read is None:
            read = self._read[name] = self._all_series(name)
        result = {one_series.name: one_series for one_series in read.series}
        if series is None or series not in result:
            for problem in read.problems:
                if series is None or not _concerns_other_series(problem, series):
                    raise problem
        if series is None and len(result) == 1:
            return next(iter(result.values()))
        listed = ", ".join(list(result)[:_SHOWN]) + (", ..." if len(result) > _SHOWN else "")
        if series is None:
            raise InvalidSeries(name, f"has {len(result)} series; name one of them: {listed}")
        if series not in result:
            guess = suggest_name(series, result)
            hint = f' (did you mean "{guess}"?)' if guess else ""
            raise InvalidSeries(name, f'has no series "{series}"{hint}; it has {listed}')
        return result[series]

    def _all_series(self, name: str) -> LoadedSeries:
        parts = find_parts([str(self._directory / name)])
        return LoadedSeries.concatenate(
            [LoadedSeries([], parts.problems, []), *(read_part(part) for part in parts.parts)]
        )


def _concerns_other_series(problem: InvalidSeries, series: str) -> bool:
    """Whether a problem is about a series other than this one, as its rule says."""
    rule = problem.rule
    if f"(series {series})" in rule or rule.startswith(f"series {series} "):
        return False
    return "(series " in rule or rule.startswith("series ")
