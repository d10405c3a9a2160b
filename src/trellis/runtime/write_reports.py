"""What is told of a write? It is counted, and logged unless it went as writes usually do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trellis.kube.outcomes import Outcome, Result
from trellis.runtime.cluster_metrics import count_write
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics

# Somebody else was faster, or it is gone: the next look sees it.
_USUAL: Final = frozenset({Result.APPLIED, Result.CONFLICT, Result.GONE, Result.SKIPPED})


def is_usual(outcome: Outcome) -> bool:
    """Whether there is nothing about it that anybody has to read."""
    return outcome.result in _USUAL


def reporting(
    metrics: Metrics, log: Logger, is_usual: Callable[[Outcome], bool] = is_usual
) -> Callable[[Outcome], None]:
    """What a writer reports to."""

    def report(outcome: Outcome) -> None:
        count_write(metrics, outcome)
        if not is_usual(outcome):
            log.warning("not written", what=outcome.action.target, result=outcome.result, why=outcome.message)

    return report
