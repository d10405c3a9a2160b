"""What may a user set of the recommender that knows phases?"""

from __future__ import annotations

import msgspec

from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues
from trellis.core.recommend.pod_minimums import minimum_parameters
from trellis.core.recommend.settings import DAY, DefaultSettings
from trellis.core.usage.runs import RUNS

_MINUTE = 60.0


class PhaseFigures(msgspec.Struct, frozen=True):
    """The values; times in seconds."""

    horizon: float
    memory_horizon: float
    target_cpu_percentile: float
    recommendation_margin_fraction: float
    memory_margin_fraction: float
    runs: int
    runs_needed: int
    longest_run: float
    pod_recommendation_min_cpu_millicores: float
    pod_recommendation_min_memory_mb: float


def phase_parameters(settings: DefaultSettings) -> tuple[Parameter, ...]:
    """The parameters; what a pod is to have at least is the same for all recommenders."""
    return (
        Parameter(
            "horizon",
            ParameterKind.DURATION,
            "CPU is sized for what earlier runs used from here until then. Pods that are not resized in place need a "
            "horizon longer than a run.",
            *(10 * _MINUTE, "seconds", 2 * _MINUTE, 7 * DAY),
        ),
        Parameter(
            "memory-horizon",
            ParameterKind.DURATION,
            "The same for memory: longer, because what comes too late is a kill and not a delay.",
            *(30 * _MINUTE, "seconds", 2 * _MINUTE, 7 * DAY),
        ),
        Parameter(
            "target-cpu-percentile",
            ParameterKind.NUMBER,
            "This fraction of the earlier runs that are alike stayed below the target of CPU. Memory is sized by all.",
            *(0.9, "fraction", 0.0, 1.0),
        ),
        Parameter(
            "recommendation-margin-fraction",
            ParameterKind.NUMBER,
            "Added to CPU, as a fraction of it.",
            *(0.15, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "memory-margin-fraction",
            ParameterKind.NUMBER,
            "Added to memory, as a fraction of it.",
            *(0.15, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "runs",
            ParameterKind.WHOLE,
            "So many of the newest runs are looked at: fewer forget an old version of a program sooner.",
            *(8, "", 1, RUNS - 1),
        ),
        Parameter(
            "runs-needed",
            ParameterKind.WHOLE,
            "With fewer earlier runs than this, a container is sized as by default.",
            *(3, "", 1, RUNS - 1),
        ),
        Parameter(
            "longest-run",
            ParameterKind.DURATION,
            "A pod that lasts longer is no run: it is sized as by default, and nothing is learned from it.",
            *(DAY, "seconds", 10 * _MINUTE, 35 * DAY),
        ),
        *minimum_parameters(settings),
    )


def phase_figures(values: ParameterValues) -> PhaseFigures:
    """The figures that a value for every parameter amounts to."""
    fields = PhaseFigures.__struct_fields__
    return msgspec.convert({field: values[field.replace("_", "-")] for field in fields}, PhaseFigures)
