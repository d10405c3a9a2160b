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
    """What is known of namespaces from before. `time` is what the survey is about: when it first began."""

    def __init__(self, now: float, path: Path | None = None, figures: Mapping[str, str] | None = None) -> None:
        self._path = path
        self._namespaces: dict[str, SavedNamespace] = {}
        self.time = now
        if path is None:
            return
        try:
            if path.exists() and path.stat().st_size:
                saved = read_saved_survey(_whole_lines(path), figures or {})
                self.time, self._namespaces = saved.time, dict(saved.namespaces)
            else:
                path.write_bytes(encode_survey_start(now, figures or {}, __version__))
        except OSError as error:
            raise InvalidInput(str(path), f"cannot be used to resume from: {error.strerror}") from error

    def known(self, namespace: str) -> SavedNamespace | None:
        """What was read of a namespace before, if all of it was; to be asked once."""
        return self._namespaces.pop(namespace, None)

    async def keep(self, found: SavedNamespace) -> None:
        """Append a namespace of which everything was read."""
        if self._path is not None:
            await asyncio.to_thread(_append, self._path, encode_namespace(found))


def resume_key(settings: PrometheusSettings, asked: SurveySettings) -> dict[str, str]:
    """What must be the same for a survey to go on."""
    usage = asked.usage
    return {
        "address": settings.prometheus_address,
        "history": settings.history_length,
        "resolution": settings.history_resolution,
        "hourly history": str(asked.recommender.needs_history).lower(),
        "runs": str(needs_runs(asked.recommender)).lower(),
        "half-lives": f"{usage.cpu_half_life:g} {usage.memory_half_life:g}",
        "memory windows": f"{usage.memory_window:g} {usage.memory_windows}",
        **({"totals of workloads": "true"} if asked.totals else {}),
    }


def _whole_lines(path: Path) -> bytes:
    """The complete lines of the file; truncates a last line that an interruption cut off."""
    text = path.read_bytes()
    complete = text[: text.rfind(b"\n") + 1]
    if len(complete) < len(text):
        path.write_bytes(complete)
    return complete


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)
