"""Liveness and readiness: the responses to the probes of the kubelet, without HTTP.

Upstream's `/health-check` checks activity: a loop that has not finished a pass for five intervals counts as dead, and
the kubelet restarts it. `/healthz` and `/readyz` run named checks, as in every component of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from trellis.base.durations import Duration

# Returns a problem, or None. It must not wait: it only reads state.
HealthCheck: TypeAlias = Callable[[], str | None]
# Lines of information that do not affect readiness.
Remarks: TypeAlias = Callable[[], Sequence[str]]


class ProbeResponse(msgspec.Struct, frozen=True):
    """An HTTP status, a text and its content type."""

    status: int
    text: str
    kind: str = "text/plain"


class Activity:
    """The time of the last activity. Before the first `touch` none is expected."""

    def __init__(self, timeout: float, clock: Callable[[], float]) -> None:
        self._timeout = timeout
        self._clock = clock
        self._last: float | None = None

    def touch(self) -> None:
        """Record activity; the first call starts the timeout. Any thread may call it."""
        self._last = self._clock()

    def stop(self) -> None:
        """Expect no more activity, as while another replica leads."""
        self._last = None

    def check(self) -> str | None:
        """The problem that `/health-check` reports, with the age of the last activity."""
        last = self._last
        age = self._clock() - last if last is not None else 0.0
        if age <= self._timeout:
            return None
        return f"last activity more than {_rounded(self._timeout)} ago: {_rounded(age)}"


def health_check(activity: HealthCheck) -> ProbeResponse:
    """The response of upstream: OK, or a server error."""
    problem = activity()
    return ProbeResponse(500, f"Error: {problem}") if problem else ProbeResponse(200, "OK")


def run_checks(
    name: str, checks: Mapping[str, HealthCheck], *, verbose: bool, remarks: Sequence[str] = ()
) -> ProbeResponse:
    """The result of several checks; verbose on request, or if one of them fails."""
    results = {name: check() for name, check in checks.items()}
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in results.items()]
    lines += [f"[!]{remark}" for remark in remarks]
    if any(results.values()):
        return ProbeResponse(500, "\n".join([*lines, f"{name} check failed"]) + "\n")
    return ProbeResponse(200, "\n".join([*lines, f"{name} check passed"]) + "\n" if verbose else "ok")


def _rounded(seconds: float) -> Duration:
    """Seconds rounded to the millisecond."""
    return Duration(round(seconds * 1000) * 10**6)
