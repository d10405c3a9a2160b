"""Where is kept what has been read, so that a survey that was interrupted can go on? In a file, or nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from trellis import __version__
from trellis.base.errors import InvalidInput
from trellis.core.advice.asked import Asked
from trellis.core.advice.kept import KeptNamespace, first_lines, namespace_line, read_kept
from trellis.core.recommend.declaration import needs_runs
from trellis.sources.prometheus.settings import PrometheusSettings


class Keeping:
    """What is known of namespaces from before. `time` is what the survey is about: when it first began."""

    def __init__(self, now: float, path: Path | None = None, figures: Mapping[str, str] | None = None) -> None:
        self._path = path
        self._namespaces: dict[str, KeptNamespace] = {}
        self.time = now
        if path is None:
            return
        try:
            if path.exists() and path.stat().st_size:
                kept = read_kept(_whole_lines(path), figures or {})
                self.time, self._namespaces = kept.time, dict(kept.namespaces)
            else:
                path.write_bytes(first_lines(now, figures or {}, __version__))
        except OSError as error:
            raise InvalidInput(str(path), f"cannot be used to resume from: {error.strerror}") from error

    def known(self, namespace: str) -> KeptNamespace | None:
        """What was read of a namespace before, if all of it was; to be asked once."""
        return self._namespaces.pop(namespace, None)

    async def keep(self, found: KeptNamespace) -> None:
        """All of a namespace was read."""
        if self._path is not None:
            await asyncio.to_thread(_append, self._path, namespace_line(found))


def figures_of(settings: PrometheusSettings, asked: Asked) -> dict[str, str]:
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
    """What was written, and the file without the half of a line at which somebody was stopped."""
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if len(whole) < len(text):
        path.write_bytes(whole)
    return whole


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)
