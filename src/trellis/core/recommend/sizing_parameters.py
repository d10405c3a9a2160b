"""What may a user set of the recommenders that size by history?"""

from __future__ import annotations

import msgspec

from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues
from trellis.core.recommend.pod_minimums import minimum_parameters
from trellis.core.recommend.settings import DAY, DefaultSettings
from trellis.core.usage.hours import HOUR


class SizingFigures(msgspec.Struct, frozen=True):
    """The values; times in seconds."""

    horizon: float
    growth_horizon: float
    target_cpu_percentile: float
    recommendation_margin_fraction: float
    memory_window: float
    memory_margin_fraction: float
    longest_memory_cycle: float
    memory_cycle_tolerance: float
    history_needed: float
    pod_recommendation_min_cpu_millicores: float
    pod_recommendation_min_memory_mb: float


def sizing_parameters(settings: DefaultSettings, margin: float) -> tuple[Parameter, ...]:
    """The parameters; what a pod is to have at least is the same for all recommenders."""
    return (
        Parameter(
            "horizon",
            ParameterKind.DURATION,
            "CPU is sized for the hours from now until then, so that it is there before it is needed.",
            *(0.5 * HOUR, "seconds", 0.0, DAY),
        ),
        Parameter(
            "growth-horizon",
            ParameterKind.DURATION,
            "Memory that grows steadily is sized for what it will be then.",
            *(DAY, "seconds", 0.0, 14 * DAY),
        ),
        Parameter(
            "target-cpu-percentile",
            ParameterKind.NUMBER,
            "The target of CPU is above usage in this fraction of the samples that count.",
            *(0.9, "fraction", 0.0, 1.0),
        ),
        Parameter(
            "recommendation-margin-fraction",
            ParameterKind.NUMBER,
            "Added to the percentiles of CPU, as a fraction of them.",
            *(margin, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "memory-window",
            ParameterKind.DURATION,
            "Memory without a recognised cycle is sized by the highest peak of this long.",
            *(18 * DAY, "seconds", DAY, 35 * DAY),
        ),
        Parameter(
            "memory-margin-fraction",
            ParameterKind.NUMBER,
            "Added to that peak, as a fraction of it.",
            *(0.13, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "longest-memory-cycle",
            ParameterKind.DURATION,
            "Cycles of memory from a week to this long are recognised; less than a week recognises none.",
            *(92 * DAY, "seconds", 0.0, 92 * DAY),
        ),
        Parameter(
            "memory-cycle-tolerance",
            ParameterKind.DURATION,
            "How much earlier or later than a cycle ago memory may rise; it is raised this long before. Steps of 6h.",
            *(12 * HOUR, "seconds", 12 * HOUR, 2 * DAY),
        ),
        Parameter(
            "history-needed",
            ParameterKind.DURATION,
            "A container with less history than this is sized as by default.",
            *(2 * DAY, "seconds", DAY, 35 * DAY),
        ),
        *minimum_parameters(settings),
    )


def sizing_figures(values: ParameterValues) -> SizingFigures:
    """The figures that a value for every parameter amounts to."""
    fields = SizingFigures.__struct_fields__
    return msgspec.convert({field: values[field.replace("_", "-")] for field in fields}, SizingFigures)
