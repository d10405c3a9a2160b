"""Default settings of Prometheus for a survey.

They differ from the recommender's: cAdvisor's labels as they are in most clusters, two weeks, and a sample for every
five minutes. An hour would hide shorter peaks, and a minute is five times the work for hardly other estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trellis.runtime.settings.loader import WrittenValue, load_settings
from trellis.sources.prometheus.settings import PrometheusSettings

USUAL_LABELS: Final[Mapping[str, str]] = {
    "container-pod-name-label": "pod",
    "container-name-label": "container",
    "prometheus-cadvisor-job-name": "",
}
SURVEY_DEFAULTS: Final[Mapping[str, str]] = {
    "history-length": "14d",
    "history-resolution": "5m",
    "history-chunk": "1y",
    **USUAL_LABELS,
}


def survey_settings(*sources: Mapping[str, WrittenValue]) -> PrometheusSettings:
    """Settings from these sources, of which the first wins, on top of what suits a survey."""
    suits = {name: WrittenValue(value, "the survey's default") for name, value in SURVEY_DEFAULTS.items()}
    return load_settings(PrometheusSettings, *sources, suits).settings
