"""What may a user set of the window recommender?"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues
from trellis.core.recommend.pod_minimums import minimum_parameters
from trellis.core.recommend.settings import DAY, DefaultSettings
from trellis.core.usage.hours import HOUR


class OomTolerance(StrEnum):
    """How well a workload bears it that a container is killed for its memory."""

    MINIMAL = "minimal"
    LOW = "low"
    INTERMEDIATE = "intermediate"


class WindowFigures(msgspec.Struct, frozen=True):
    """The values; times in seconds."""

    cpu_half_life: float
    target_cpu_percentile: float
    recommendation_margin_fraction: float
    oom_tolerance: OomTolerance
    memory_window: float
    memory_half_life: float
    memory_margin_fraction: float
    history_needed: float
    pod_recommendation_min_cpu_millicores: float
    pod_recommendation_min_memory_mb: float


def window_parameters(settings: DefaultSettings) -> tuple[Parameter, ...]:
    """The parameters; what a pod is to have at least is the same for all recommenders."""
    return (
        Parameter(
            "cpu-half-life",
            ParameterKind.DURATION,
            "An hour this long ago counts half as much as the last one.",
            *(12 * HOUR, "seconds", HOUR, 7 * DAY),
        ),
        Parameter(
            "target-cpu-percentile",
            ParameterKind.NUMBER,
            "This fraction of the work was done while less CPU was used than the target.",
            *(0.9, "fraction", 0.0, 1.0),
        ),
        Parameter(
            "recommendation-margin-fraction",
            ParameterKind.NUMBER,
            "Added to the percentiles of CPU, as a fraction of them.",
            *(0.15, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "oom-tolerance",
            ParameterKind.CHOICE,
            "How well kills are borne: memory is the highest peak, nearly that, or the usual, half the peak at least.",
            OomTolerance.MINIMAL.value,
            choices=tuple(each.value for each in OomTolerance),
        ),
        Parameter(
            "memory-window",
            ParameterKind.DURATION,
            "Peaks of memory are looked for in this time.",
            *(7 * DAY, "seconds", DAY, 35 * DAY),
        ),
        Parameter(
            "memory-half-life",
            ParameterKind.DURATION,
            "For usual peaks, an hour this long ago counts half as much as the last one.",
            *(2 * DAY, "seconds", HOUR, 14 * DAY),
        ),
        Parameter(
            "memory-margin-fraction",
            ParameterKind.NUMBER,
            "Added to that, as a fraction of it.",
            *(0.10, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "history-needed",
            ParameterKind.DURATION,
            "A container with less history than this is sized as by default.",
            *(DAY, "seconds", HOUR, 35 * DAY),
        ),
        *minimum_parameters(settings),
    )


def window_figures(values: ParameterValues) -> WindowFigures:
    """The figures that a value for every parameter amounts to."""
    fields = WindowFigures.__struct_fields__
    return msgspec.convert({field: values[field.replace("_", "-")] for field in fields}, WindowFigures)
