"""Outcomes of writes, as data: one per action, whatever happened.

A controller folds outcomes into its state, and never has to catch an error to learn that another client was faster.
`result` is the whole vocabulary, and also the label in metrics.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from trellis.base import errors
from trellis.base.errors import KubeError
from trellis.core.cluster.write_results import WriteResult
from trellis.kube.write.actions import Action, CreateEviction, CreateObject, PatchResize

# A failed write may have been applied all the same: see `uncertain` of `WriteOutcome`.
Result: TypeAlias = WriteResult

# Reasons of Trellis where the server gives none, as `reason` of an outcome.
READ_ONLY: Final = "ReadOnly"
DRY_RUN: Final = "DryRun"
NOT_LEADING: Final = "NotLeading"
REPLACED: Final = "Replaced"

# A proxy lost the server, or the server timed out: in either case the write may have been applied.
_TIMEOUT_CODES: Final = frozenset({502, 504})
# The same, in messages of servers that answer 500.
_TIMEOUT_MESSAGES: Final = ("request did not complete within requested timeout", "etcdserver: request timed out")

# The cause in the 429 of a disruption budget; the 429 of a busy server has none.
_BUDGET_CAUSE: Final = "DisruptionBudget"


class WriteOutcome(msgspec.Struct, frozen=True):
    """`reason` is one word, the server's or ours; `message` one line for people.

    `uid`, `resource_version` and `name` are the written object's, where the server returned it. `retry_after` is in
    seconds. `uncertain` means that no response came, or that it was not waited for: the write may have been applied.
    `body` is the created or patched object as the server returned it.
    """

    action: Action
    result: Result
    reason: str = ""
    message: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    retry_after: float | None = None
    uncertain: bool = False
    body: bytes = b""

    @property
    def applied(self) -> bool:
        """Whether the write was applied."""
        return self.result is Result.APPLIED


def build_outcome(action: Action, error: KubeError) -> WriteOutcome:
    """The outcome of an action that ended with an error of the API server."""
    result, reason = _classify(action, error)
    uncertain = isinstance(error, errors.Unreachable) or _is_timeout(error)
    message = " ".join(error.message.split())
    return WriteOutcome(action, result, reason, message, retry_after=error.retry_after, uncertain=uncertain)


def _classify(action: Action, error: KubeError) -> tuple[Result, str]:
    reason = error.reason or type(error).__name__
    match error:
        case errors.NotFound():
            # A create with 404 lacks its namespace or its kind; no object has gone.
            return (Result.INVALID if isinstance(action, CreateObject) else Result.GONE), reason
        case errors.Conflict() | errors.Invalid() if _has_other_uid(error):
            return Result.GONE, REPLACED
        case errors.Conflict() | errors.AlreadyExists():
            return Result.CONFLICT, reason
        case errors.Throttled() if isinstance(action, CreateEviction) and _is_refused_by_budget(error):
            return Result.REFUSED, _BUDGET_CAUSE
        case errors.Throttled():
            return Result.THROTTLED, reason
        case errors.Forbidden() if isinstance(action, PatchResize) and not _is_refused_by_rbac(error):
            return Result.INFEASIBLE, reason
        case errors.Forbidden() | errors.Unauthorized():
            return Result.FORBIDDEN, reason
        case errors.ServerFault() | errors.Unreachable():
            return Result.FAILED, reason
        case _:
            # 422 and every other 4xx: a retry would get the same response.
            return Result.INVALID, reason


def _has_other_uid(error: KubeError) -> bool:
    """Whether the UID differed. Patches name the field; deletions and evictions say so in the message."""
    in_words = "UID in precondition" in error.message or "UID in the precondition" in error.message
    return in_words or any(cause.field == "metadata.uid" for cause in error.details.causes)


def _is_timeout(error: KubeError) -> bool:
    """Whether a proxy or the server stopped waiting for the write, which may still have been applied."""
    return error.code in _TIMEOUT_CODES or (
        error.code >= 500 and any(text in error.message for text in _TIMEOUT_MESSAGES)
    )


def _is_refused_by_budget(error: KubeError) -> bool:
    return any(cause.reason == _BUDGET_CAUSE for cause in error.details.causes)


def _is_refused_by_rbac(error: KubeError) -> bool:
    """RBAC says which user cannot do what; quotas and limit ranges answer 403 as well, with a sentence of their own."""
    return 'User "' in error.message and " cannot " in error.message
