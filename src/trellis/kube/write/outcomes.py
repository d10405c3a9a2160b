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

# `uncertain` in an `Outcome` says whether one that failed may have been done all the same.
Result: TypeAlias = WriteResult

# Reasons of our own, where the server has not given one. They stand for `reason` in an `Outcome`.
READ_ONLY: Final = "ReadOnly"
DRY_RUN: Final = "DryRun"
NOT_LEADING: Final = "NotLeading"
REPLACED: Final = "Replaced"

# A proxy lost the server, or the server timed out: in either case the write may have been applied.
_GIVEN_UP: Final = frozenset({502, 504})
# The same, in messages of servers that answer 500.
_GIVEN_UP_WORDS: Final = ("request did not complete within requested timeout", "etcdserver: request timed out")

# The cause in the 429 that a disruption budget gives, where the server's own 429 has none.
_BUDGET_CAUSE: Final = "DisruptionBudget"


class WriteOutcome(msgspec.Struct, frozen=True):
    """`reason` is one word, the server's or ours; `message` one line for people.

    `uid`, `resource_version` and `name` are the written object's, where the server returned it. `retry_after` is in
    seconds. `uncertain` means that no answer came, or that it was not waited for: the write may have been carried out.
    `body` is what the server made of an object that was created or patched.
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
        """Whether it was done."""
        return self.result is Result.APPLIED


def outcome_of(action: Action, error: KubeError) -> WriteOutcome:
    """What an error of the API server means for this action."""
    result, reason = _judge(action, error)
    uncertain = isinstance(error, errors.Unreachable) or _is_given_up(error)
    message = " ".join(error.message.split())
    return WriteOutcome(action, result, reason, message, retry_after=error.retry_after, uncertain=uncertain)


def _judge(action: Action, error: KubeError) -> tuple[Result, str]:
    reason = error.reason or type(error).__name__
    match error:
        case errors.NotFound():
            # A create that finds nothing misses its namespace or its kind, and there is nothing to forget.
            return (Result.INVALID if isinstance(action, CreateObject) else Result.GONE), reason
        case errors.Conflict() | errors.Invalid() if _is_another_object(error):
            return Result.GONE, REPLACED
        case errors.Conflict() | errors.AlreadyExists():
            return Result.CONFLICT, reason
        case errors.Throttled() if isinstance(action, CreateEviction) and _is_budget(error):
            return Result.REFUSED, _BUDGET_CAUSE
        case errors.Throttled():
            return Result.THROTTLED, reason
        case errors.Forbidden() if isinstance(action, PatchResize) and not _is_rbac(error):
            return Result.INFEASIBLE, reason
        case errors.Forbidden() | errors.Unauthorized():
            return Result.FORBIDDEN, reason
        case errors.ServerFault() | errors.Unreachable():
            return Result.FAILED, reason
        case _:
            # 422 and every other 4xx: the server has understood and will say the same again.
            return Result.INVALID, reason


def _is_another_object(error: KubeError) -> bool:
    """Whether the UID is what did not fit. Patches name the field, deletions and evictions say it in words."""
    in_words = "UID in precondition" in error.message or "UID in the precondition" in error.message
    return in_words or any(cause.field == "metadata.uid" for cause in error.details.causes)


def _is_given_up(error: KubeError) -> bool:
    """Whether a proxy or the server stopped waiting for the write, which may still have been applied."""
    return error.code in _GIVEN_UP or (error.code >= 500 and any(words in error.message for words in _GIVEN_UP_WORDS))


def _is_budget(error: KubeError) -> bool:
    return any(cause.reason == _BUDGET_CAUSE for cause in error.details.causes)


def _is_rbac(error: KubeError) -> bool:
    """RBAC says which user cannot do what; quotas and limit ranges answer 403 as well, with a sentence of their own."""
    return 'User "' in error.message and " cannot " in error.message
