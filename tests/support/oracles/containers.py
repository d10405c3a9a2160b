"""One container's life, one sample at a time: slow, obvious, and what the usage model is measured by.

Written from the facts about upstream's container state, with the one difference that Trellis makes: a window whose
first sample is 0 bytes takes later samples as any other does.
"""

from __future__ import annotations

from support.oracles.histograms import SlowHistogram

DAY = 86_400.0


class SlowRow:
    """What all containers of one name of one VPA have used."""

    def __init__(
        self, half_life: float = DAY, window: float = DAY, ratio: float = 1.2, least: float = 2**20 * 100
    ) -> None:
        self.cpu = SlowHistogram(0.01, 176, half_life)
        self.memory = SlowHistogram(1e7, 176, half_life)
        self.first: float | None = None
        self.last: float | None = None
        self.count = 0
        self.window = window
        self.ratio = ratio
        self.least = least


class SlowContainer:
    """One live container."""

    def __init__(self, row: SlowRow, request: float = 0.0) -> None:
        self.row = row
        self.request = request
        self.last_cpu: float | None = None
        self.last_memory: float | None = None
        self.window_end: float | None = None
        self.memory_peak = 0.0
        self.oom_peak = 0.0

    def add_cpu(self, time: float, cores: float) -> bool:
        if cores < 0 or (self.last_cpu is not None and time <= self.last_cpu):
            return False
        self.last_cpu = time
        row = self.row
        row.cpu.add(time, cores, 0.1)
        row.first = time if row.first is None else min(row.first, time)
        row.last = time if row.last is None else max(row.last, time)
        row.count += 1
        return True

    def add_memory(self, time: float, usage: float, *, is_oom: bool = False) -> bool:
        if usage < 0 or (not is_oom and self.last_memory is not None and time < self.last_memory):
            return False
        self.last_memory = time
        if self.window_end is None:
            self.window_end = time
        if time < self.window_end:
            old = max(self.memory_peak, self.oom_peak)
            if usage <= old:
                return True
            self.row.memory.subtract(self.window_end, old, 1.0)
        else:
            windows = int((time - self.window_end) / self.row.window)
            self.window_end += windows * self.row.window + self.row.window
            self.memory_peak = self.oom_peak = 0.0
        self.row.memory.add(self.window_end, usage, 1.0)
        if is_oom:
            self.oom_peak = usage
        else:
            self.memory_peak = usage
        return True

    def record_oom(self, time: float, memory: float | None = None) -> bool:
        if self.last_memory is not None and time < self.last_memory - self.row.window:
            return False
        used = max(self.request if memory is None else memory, self.memory_peak)
        needed = max(used + int(self.row.least), int(used * self.row.ratio))
        return self.add_memory(time, needed, is_oom=True)

    def without_peak(self, now: float) -> None:
        """Take the peak of a window that is not over away, as upstream does before it writes a checkpoint."""
        if self.window_end is not None and now < self.window_end:
            self.row.memory.subtract(self.window_end, max(self.memory_peak, self.oom_peak), 1.0)
