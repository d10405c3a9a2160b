"""Liveness and readiness: the responses to the probes of the kubelet, without HTTP.

Upstream's `/health-check` goes by activity: a loop that has not finished a pass for five intervals is taken for dead,
and the kubelet restarts it. `/healthz` and `/readyz` go by named checks, as those of every component of Kubernetes
do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from trellis.base.durations import Duration

# Says what is wrong, or None. It must not wait: it reads what others have found out.
HealthCheck: TypeAlias = Callable[[], str | None]
# What is worth knowing though nothing is wrong, each as a line.
Remarks: TypeAlias = Callable[[], Sequence[str]]


class ProbeResponse(msgspec.Struct, frozen=True):
    """A status of HTTP and a text, of a certain type."""

    status: int
    text: str
    kind: str = "text/plain"


class Activity:
    """When something last showed that it is alive. Before it is started there is nothing to expect."""

    def __init__(self, timeout: float, clock: Callable[[], float]) -> None:
        self._timeout = timeout
        self._clock = clock
        self._last: float | None = None

    def touch(self) -> None:
        """Show that it is alive; the first time starts the watch. Any thread may call it."""
        self._last = self._clock()

    def stop(self) -> None:
        """Expect nothing more, as while another replica leads."""
        self._last = None

    def check(self) -> str | None:
        """What `/health-check` complains of, with the age of the last activity."""
        last = self._last
        age = self._clock() - last if last is not None else 0.0
        if age <= self._timeout:
            return None
        return f"last activity more than {_rounded(self._timeout)} ago: {_rounded(age)}"


def health_check(activity: Activity) -> ProbeResponse:
    """What upstream answers: OK, or an error of the server."""
    wrong = activity.check()
    return ProbeResponse(500, f"Error: {wrong}") if wrong else ProbeResponse(200, "OK")


def run_checks(
    name: str, checks: Mapping[str, HealthCheck], *, verbose: bool, remarks: Sequence[str] = ()
) -> ProbeResponse:
    """The result of several checks; verbose on request, or if one of them fails."""
    results = {name: check() for name, check in checks.items()}
    lines = [f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in results.items()]
    lines += [f"[!]{remark}" for remark in remarks]
    if any(results.values()):
        return ProbeResponse(500, "\n".join([*lines, f"{name} check failed"]) + "\n")
    return ProbeResponse(200, "\n".join([*lines, f"{name} check passed"]) + "\n" if verbose else "ok")


def _rounded(seconds: float) -> Duration:
    """To the millisecond: no probe asks more often."""
    return Duration(round(seconds * 1000) * 10**6)
