"""What of a dump is not played as it is in the cluster? Counted by kind and reason, for the top of the report."""

from __future__ import annotations

from collections import Counter

from trellis.sim.results import NotPlayed


class Ledger:
    """Collects what is not played."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, reason: str, count: int = 1) -> None:
        """So many objects of a kind; none where their number is not known."""
        self._counts[kind, reason] += count

    def all(self) -> list[NotPlayed]:
        """One entry for each kind and reason, by kind."""
        return [NotPlayed(kind, count, reason) for (kind, reason), count in sorted(self._counts.items())]
