"""Usage of a container in a Scenario: shapes that add up, per resource, or the values of a trace."""

from __future__ import annotations

from typing import Annotated

from trellis.api.kinds.parts import ApiStruct
from trellis.api.schema.fields import AmountText, Field, SpanText

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


_HOUR = {"minimum": 0, "maximum": 24}


class DailyShape(ApiStruct, frozen=True):
    """A daily wave: highest at `peakHour`, lowest twelve hours later."""

    low: Annotated[AmountText | None, Field("Lowest usage.", required=True)] = None
    high: Annotated[AmountText | None, Field("Highest usage.", required=True)] = None
    peak_hour: Annotated[float | None, Field("Hour of the highest usage, in UTC. Absent: 14.", **_HOUR)] = None


class WeeklyShape(ApiStruct, frozen=True):
    """Working hours: `high` on some days between two hours, `low` otherwise, with ramps of one hour."""

    low: Annotated[AmountText | None, Field("Usage outside working hours.", required=True)] = None
    high: Annotated[AmountText | None, Field("Usage in working hours.", required=True)] = None
    begin_hour: Annotated[float | None, Field("Hour at which working hours begin, in UTC. Absent: 8.", **_HOUR)] = None
    end_hour: Annotated[float | None, Field("Hour at which working hours end, in UTC. Absent: 18.", **_HOUR)] = None
    days: Annotated[
        list[Annotated[str, Field(enum=WEEKDAYS)]] | None,
        Field("Working days. Absent: Monday to Friday.", min_items=1, max_items=7),
    ] = None


class SpikyShape(ApiStruct, frozen=True):
    """Bursts at random times, each with its own length and height."""

    height: Annotated[AmountText | None, Field("Average usage that a burst adds.", required=True)] = None
    per_day: Annotated[
        float | None, Field("Average number of bursts per day.", required=True, minimum=0, maximum=1440)
    ] = None
    length: Annotated[SpanText | None, Field("Average duration of a burst. Absent: `15m`.")] = None


class TrendShape(ApiStruct, frozen=True):
    """A straight line from the start of the scenario to its end."""

    begin: Annotated[AmountText | None, Field("Usage at the start of the scenario.", required=True)] = None
    end: Annotated[AmountText | None, Field("Usage at the end of the scenario.", required=True)] = None


class UsagePhase(ApiStruct, frozen=True):
    """One phase of a sequence."""

    length: Annotated[SpanText | None, Field("Duration of the phase.", required=True)] = None
    level: Annotated[AmountText | None, Field("Usage during the phase.", required=True)] = None


class TraceShape(ApiStruct, frozen=True):
    """Measured values. A trace that is shorter than the scenario repeats; gaps keep the last value."""

    file: Annotated[
        str,
        Field(
            "File of the series, as CSV, CSV.gz or Parquet; the path is relative to the scenario file.",
            required=True,
            min_length=1,
            max_length=1024,
        ),
    ] = ""
    series: Annotated[
        str | None, Field("Name of the series. Absent: the only series of the file.", max_length=1024)
    ] = None
    column: Annotated[
        str | None, Field("Column of the series. Absent: that of the resource.", enum=("cpu", "memory"))
    ] = None
    scale: Annotated[
        float | None,
        Field("Factor that every value is multiplied by. Absent: 1.", minimum=0, maximum=1_000_000_000_000_000),
    ] = None


class ResourceUsage(ApiStruct, frozen=True):
    """Usage of one resource: the sum of all shapes given here, with `noise`.

    Amounts are quantities: cores of CPU, bytes of memory.
    """

    steady: Annotated[AmountText | None, Field("Constant usage.")] = None
    daily: Annotated[DailyShape | None, Field("A daily wave.")] = None
    weekly: Annotated[WeeklyShape | None, Field("High usage in working hours.")] = None
    spiky: Annotated[SpikyShape | None, Field("Bursts at random times.")] = None
    trend: Annotated[TrendShape | None, Field("A linear change over the scenario.")] = None
    phases: Annotated[
        list[UsagePhase] | None,
        Field(
            "A sequence of levels, which repeats. For a Job it restarts with each run.",
            min_items=1,
            max_items=64,
        ),
    ] = None
    leak: Annotated[
        AmountText | None,
        Field("For memory only: growth per hour since the start of the container."),
    ] = None
    trace: Annotated[TraceShape | None, Field("Measured values.")] = None
    noise: Annotated[
        float | None,
        Field(
            "Random deviation of each step, as a fraction of the sum. Absent: 0 with a `trace`, "
            "otherwise 0.05 for CPU and 0.01 for memory.",
            minimum=0,
            maximum=2,
        ),
    ] = None


class PodBase(ApiStruct, frozen=True):
    """Usage of each pod that does not depend on the load."""

    cpu: Annotated[AmountText | None, Field("CPU per pod. Absent: 0.")] = None
    memory: Annotated[AmountText | None, Field("Memory per pod. Absent: 0.")] = None


class ContainerUsage(ApiStruct, frozen=True):
    """Usage of a container as if it had no limits."""

    cpu: Annotated[ResourceUsage | None, Field("Usage of CPU. Absent: 0.")] = None
    memory: Annotated[ResourceUsage | None, Field("Usage of memory. Absent: 0.")] = None
    shared: Annotated[
        bool | None,
        Field(
            "Whether the usage is that of all replicas together, divided among the Ready pods. Absent: "
            "false, it is that of each pod."
        ),
    ] = None
    base: Annotated[PodBase | None, Field("With `shared: true` only: usage of each pod in addition to its share.")] = (
        None
    )
    spread: Annotated[
        float | None,
        Field("Random difference between pods, as a fraction. Absent: 0.1.", minimum=0, maximum=2),
    ] = None
