"""What is worth a line in the log about shadow recommenders? What went wrong with them, once and not in every pass."""

from __future__ import annotations

from typing import Final

from trellis.core.recommend.results import PassResult
from trellis.runtime.logs import Logger

_log: Final = Logger("trellis.recommender")


class ShadowNews:
    """Remembers what was said after the last pass."""

    def __init__(self) -> None:
        self._unhosted: frozenset[str] = frozenset()
        self._failures: dict[str, str] = {}

    def tell(self, result: PassResult) -> None:
        """Say what was not so before."""
        wanted = {each.recommender: each for each in reversed(result.unhosted)}
        for name in sorted(wanted.keys() - self._unhosted):
            first = wanted[name]
            _log.warning(
                "a shadow recommender does not run here; add it to --recommender-name",
                recommender=name,
                namespace=first.namespace,
                vpa=first.vpa,
            )
        self._unhosted = frozenset(wanted)
        failures = {name: shadow.failure for name, shadow in result.answers.shadows.items() if shadow.failure}
        for name, why in failures.items():
            if self._failures.get(name) != why:
                _log.error("a shadow recommender failed", recommender=name, why=why)
        self._failures = failures
