"""What may a user set of the default recommender? All that upstream's flags set for everybody, under the same names.

Half-lives and windows are not among them: they shape the histograms, which are kept before anybody asks.
"""

from __future__ import annotations

import msgspec

from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues
from trellis.core.recommend.settings import DefaultSettings

_LONGEST_INTERVAL = 365 * 86400.0
_LARGEST_POD = 1e9  # a million cores, or a pebibyte

_NAMES = {
    "target-cpu-percentile": "target_cpu_percentile",
    "recommendation-lower-bound-cpu-percentile": "lower_bound_cpu_percentile",
    "recommendation-upper-bound-cpu-percentile": "upper_bound_cpu_percentile",
    "target-memory-percentile": "target_memory_percentile",
    "recommendation-lower-bound-memory-percentile": "lower_bound_memory_percentile",
    "recommendation-upper-bound-memory-percentile": "upper_bound_memory_percentile",
    "recommendation-margin-fraction": "margin_fraction",
    "confidence-interval-cpu": "confidence_interval_cpu",
    "confidence-interval-memory": "confidence_interval_memory",
    "pod-recommendation-min-cpu-millicores": "pod_min_cpu_millicores",
    "pod-recommendation-min-memory-mb": "pod_min_memory_mebibytes",
}


def declared_parameters(settings: DefaultSettings) -> tuple[Parameter, ...]:
    """The parameters, with the settings as defaults."""
    return tuple(_declared(name, getattr(settings, field)) for name, field in _NAMES.items())


def figures_from(values: ParameterValues) -> DefaultSettings:
    """The figures that a value for every parameter amounts to."""
    return msgspec.convert({field: values[name] for name, field in _NAMES.items()}, DefaultSettings)


def _declared(name: str, default: float) -> Parameter:
    resource = "CPU" if "cpu" in name else "memory"
    if name.endswith("percentile"):
        what = "target" if name.startswith("target") else "lower bound" if "lower" in name else "upper bound"
        meaning = f"The {what} of {resource} is above usage in this fraction of all samples."
        return Parameter(name, ParameterKind.NUMBER, meaning, default, "fraction", minimum=0, maximum=1)
    if name.startswith("confidence"):
        meaning = f"With this much history the upper bound of {resource} is twice what usage alone would make it."
        return Parameter(
            name, ParameterKind.DURATION, meaning, default, "seconds", minimum=60, maximum=_LONGEST_INTERVAL
        )
    if name.startswith("pod"):
        unit = "millicores" if resource == "CPU" else "MiB"
        meaning = f"The least {resource} of a whole pod, shared by its containers."
        return Parameter(name, ParameterKind.NUMBER, meaning, default, unit, minimum=0, maximum=_LARGEST_POD)
    meaning = "Added to every percentile, as a fraction of it."
    return Parameter(name, ParameterKind.NUMBER, meaning, default, "fraction", minimum=0, maximum=100)
