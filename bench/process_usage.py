"""What a process has used so far, as the kernel counts it."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """User and system time; the fields follow the name in parentheses."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float:
    """Memory at this moment."""
    return _megabytes(pid, "VmRSS:")


def proportional_megabytes(pid: int) -> float:
    """Memory at this moment, of which pages that several processes share count in equal parts."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.split("\nPss:")[1].split()[0]) * 1024 / 1e6


def peak_megabytes(pid: int) -> float:
    """The most memory that it ever had."""
    return _megabytes(pid, "VmHWM:")


def _megabytes(pid: int, field: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(field)[1].split()[0]) * 1024 / 1e6
