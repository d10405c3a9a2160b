"""Usage of a container in a Scenario: shapes that add up, per resource, or the values of a trace."""

from __future__ import annotations

from typing import Annotated

from trellis.api.kinds.parts import ApiStruct
from trellis.api.schema.fields import AmountText, Field, SpanText

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


_HOUR = {"minimum": 0, "maximum": 24}


class DailyShape(ApiStruct, frozen=True):
    """A wave with the day: highest at `peakHour`, lowest twelve hours later."""

    low: Annotated[AmountText | None, Field("At the quietest time.", required=True)] = None
    high: Annotated[AmountText | None, Field("At the busiest time.", required=True)] = None
    peak_hour: Annotated[float | None, Field("When that is, an hour of the day in UTC. Absent: 14.", **_HOUR)] = None


class WeeklyShape(ApiStruct, frozen=True):
    """Working hours: busy on some days from one hour to another, quiet else. It takes an hour to get busy or quiet."""

    low: Annotated[AmountText | None, Field("Outside the hours.", required=True)] = None
    high: Annotated[AmountText | None, Field("Within the hours.", required=True)] = None
    begin_hour: Annotated[float | None, Field("When it gets busy, in UTC. Absent: 8.", **_HOUR)] = None
    end_hour: Annotated[float | None, Field("When it gets quiet, in UTC. Absent: 18.", **_HOUR)] = None
    days: Annotated[
        list[Annotated[str, Field(enum=WEEKDAYS)]] | None,
        Field("The busy days. Absent: Monday to Friday.", min_items=1, max_items=7),
    ] = None


class SpikyShape(ApiStruct, frozen=True):
    """Bursts at random times, each with its own length and height."""

    height: Annotated[AmountText | None, Field("What a burst adds, on average.", required=True)] = None
    per_day: Annotated[
        float | None, Field("How many there are in a day, on average.", required=True, minimum=0, maximum=1440)
    ] = None
    length: Annotated[SpanText | None, Field("How long a burst lasts, on average. Absent: `15m`.")] = None


class TrendShape(ApiStruct, frozen=True):
    """A straight line from the first moment of the scenario to its last."""

    begin: Annotated[AmountText | None, Field("At the beginning.", required=True)] = None
    end: Annotated[AmountText | None, Field("At the end.", required=True)] = None


class UsagePhase(ApiStruct, frozen=True):
    """One of the phases that follow one another."""

    length: Annotated[SpanText | None, Field("How long it lasts.", required=True)] = None
    level: Annotated[AmountText | None, Field("What is used meanwhile.", required=True)] = None


class TraceShape(ApiStruct, frozen=True):
    """Numbers that were measured. A trace that is shorter than the scenario begins anew; gaps keep the last value."""

    file: Annotated[
        str,
        Field(
            "A file of series, relative to the scenario's own: CSV, CSV.gz or Parquet.",
            required=True,
            min_length=1,
            max_length=1024,
        ),
    ] = ""
    series: Annotated[
        str | None, Field("Which series, where a file has several. Absent: its only one.", max_length=1024)
    ] = None
    column: Annotated[
        str | None, Field("Which of its two columns. Absent: that of the resource.", enum=("cpu", "memory"))
    ] = None
    scale: Annotated[
        float | None, Field("Multiplies every number. Absent: 1.", minimum=0, maximum=1_000_000_000_000_000)
    ] = None


class ResourceUsage(ApiStruct, frozen=True):
    """What is used of one resource: everything given here added up, and then disturbed by `noise`.

    Cores for CPU and bytes for memory, as quantities.
    """

    steady: Annotated[AmountText | None, Field("Always the same.")] = None
    daily: Annotated[DailyShape | None, Field("A wave with the day.")] = None
    weekly: Annotated[WeeklyShape | None, Field("Working hours.")] = None
    spiky: Annotated[SpikyShape | None, Field("Bursts.")] = None
    trend: Annotated[TrendShape | None, Field("Grows or shrinks.")] = None
    phases: Annotated[
        list[UsagePhase] | None,
        Field(
            "One level after the other, and then from the first again. In a Job they begin with each run.",
            min_items=1,
            max_items=64,
        ),
    ] = None
    leak: Annotated[
        AmountText | None,
        Field("Memory alone: what is lost in an hour, from each start of the container to its next."),
    ] = None
    trace: Annotated[TraceShape | None, Field("Measured numbers.")] = None
    noise: Annotated[
        float | None,
        Field(
            "How far each step strays from the sum, as a fraction. Absent: 0.05 for CPU, 0.01 for memory.",
            minimum=0,
            maximum=2,
        ),
    ] = None


class PodBase(ApiStruct, frozen=True):
    """What every pod uses for itself beside its part of the load."""

    cpu: Annotated[AmountText | None, Field("Cores. Absent: 0.")] = None
    memory: Annotated[AmountText | None, Field("Bytes. Absent: 0.")] = None


class ContainerUsage(ApiStruct, frozen=True):
    """Usage of a container without limits."""

    cpu: Annotated[ResourceUsage | None, Field("CPU. Absent: nothing.")] = None
    memory: Annotated[ResourceUsage | None, Field("Memory. Absent: nothing.")] = None
    shared: Annotated[
        bool | None,
        Field(
            "Whether this is the load of the whole workload, of which each Ready pod has its part. Absent: false, "
            "every pod uses all of it."
        ),
    ] = None
    base: Annotated[PodBase | None, Field("With `shared`: what every pod uses on top of its part.")] = None
    spread: Annotated[
        float | None,
        Field("How far pods differ from one another, as a fraction. Absent: 0.1.", minimum=0, maximum=2),
    ] = None
