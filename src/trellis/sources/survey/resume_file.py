"""The file from which an interrupted survey resumes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from trellis import __version__
from trellis.base.errors import InvalidInput
from trellis.core.advice.survey.usage import SurveySettings
from trellis.core.recommend.validation import needs_runs
from trellis.core.recording.survey import SavedNamespace, encode_namespace, encode_survey_start, read_saved_survey
from trellis.sources.prometheus.settings import PrometheusSettings


class ResumeFile:
    """The saved usage of namespaces. `time` is the time of the survey: when it first began."""

    def __init__(self, now: float, path: Path | None = None, settings_key: Mapping[str, str] | None = None) -> None:
        self._path = path
        self._namespaces: dict[str, SavedNamespace] = {}
        self.time = now
        if path is None:
            return
        try:
            if path.exists() and path.stat().st_size:
                saved = read_saved_survey(_read_complete_lines(path), settings_key or {})
                self.time, self._namespaces = saved.time, dict(saved.namespaces)
            else:
                path.write_bytes(encode_survey_start(now, settings_key or {}, __version__))
        except OSError as error:
            raise InvalidInput(str(path), f"cannot be used as a file to resume from: {error.strerror}") from error

    def pop_saved(self, namespace: str) -> SavedNamespace | None:
        """The saved usage of a namespace, if it was read completely; each is returned once."""
        return self._namespaces.pop(namespace, None)

    async def append(self, namespace: SavedNamespace) -> None:
        """Append a namespace that was read completely."""
        if self._path is not None:
            await asyncio.to_thread(_append, self._path, encode_namespace(namespace))


def build_resume_key(settings: PrometheusSettings, survey_settings: SurveySettings) -> dict[str, str]:
    """The settings that must be equal to resume a survey."""
    usage = survey_settings.usage
    return {
        "address": settings.prometheus_address,
        "history": settings.history_length,
        "resolution": settings.history_resolution,
        "hourly history": str(survey_settings.recommender.needs_history).lower(),
        "runs": str(needs_runs(survey_settings.recommender)).lower(),
        "half-lives": f"{usage.cpu_half_life:g} {usage.memory_half_life:g}",
        "memory windows": f"{usage.memory_window:g} {usage.memory_windows}",
        **({"totals of workloads": "true"} if survey_settings.totals else {}),
    }


def _read_complete_lines(path: Path) -> bytes:
    """The complete lines of the file; truncates a last line that an interruption cut off."""
    text = path.read_bytes()
    complete = text[: text.rfind(b"\n") + 1]
    if len(complete) < len(text):
        path.write_bytes(complete)
    return complete


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)
