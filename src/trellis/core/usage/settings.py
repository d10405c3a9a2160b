"""Settings of the usage model: for all rows, and those that a VPA may override for its own."""

from __future__ import annotations

import math

import msgspec

from trellis.base.errors import InvalidInput

DAY = 86_400.0


class Tuning(msgspec.Struct, frozen=True):
    """How one row counts memory; a VPA may override each of these for its containers."""

    memory_window: float = DAY
    """Seconds in which one peak is kept per container."""
    memory_windows: int = 8
    """A container that was not sampled for this number of windows is forgotten."""
    oom_bump_up_ratio: float = 1.2
    """An out-of-memory kill counts as a peak of at least so much times what the container had."""
    oom_min_bump_up: float = 104_857_600.0
    """The least addition, in bytes."""

    def __post_init__(self) -> None:
        _check_minimum("memory_window", self.memory_window, 1.0, "at least one second")
        _check_minimum("memory_windows", self.memory_windows, 1.0, "at least 1")
        _check_minimum("oom_bump_up_ratio", self.oom_bump_up_ratio, 1.0, "at least 1")
        _check_minimum("oom_min_bump_up", self.oom_min_bump_up, 0.0, "not negative")


class UsageSettings(msgspec.Struct, frozen=True):
    """Settings of all rows; the defaults are upstream's: checkpoints are only readable with equal half-lives."""

    cpu_half_life: float = DAY
    """Seconds after which a CPU sample weighs half as much as a new one."""
    memory_half_life: float = DAY
    """The same for memory peaks."""
    memory_window: float = DAY
    memory_windows: int = 8
    oom_bump_up_ratio: float = 1.2
    oom_min_bump_up: float = 104_857_600.0
    history_days: int = 35
    """The length of hourly history: five weeks show a week's rhythm five times."""

    def __post_init__(self) -> None:
        _check_minimum("cpu_half_life", self.cpu_half_life, 1.0, "at least one second")
        _check_minimum("memory_half_life", self.memory_half_life, 1.0, "at least one second")
        _check_minimum("history_days", self.history_days, 1.0, "at least 1")
        _ = self.tuning

    @property
    def tuning(self) -> Tuning:
        """The tuning of a row whose VPA overrides nothing."""
        return Tuning(self.memory_window, self.memory_windows, self.oom_bump_up_ratio, self.oom_min_bump_up)


def _check_minimum(field: str, value: float, minimum: float, rule: str) -> None:
    if not (minimum <= value < math.inf):
        raise InvalidInput(value, f"{field}: must be {rule}")
