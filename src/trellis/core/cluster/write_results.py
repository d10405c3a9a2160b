"""Results of writes to the API server: what an executor reports of each, and the label of its metric."""

from __future__ import annotations

from enum import StrEnum


class WriteResult(StrEnum):
    """What became of a write."""

    APPLIED = "Applied"
    # The object has changed since, or the name is taken: read it again and decide anew.
    CONFLICT = "Conflict"
    # The object does not exist any more, or a namesake has taken its place: forget it.
    GONE = "Gone"
    # RBAC or an admission plug-in says no: nothing changes until a person does something.
    FORBIDDEN = "Forbidden"
    # The server is busy and has not done it.
    THROTTLED = "Throttled"
    # The pod cannot have these resources where it is: a quota, a limit range, or the node.
    INFEASIBLE = "Infeasible"
    # The request itself is wrong: asking again will not help.
    INVALID = "Invalid"
    # A disruption budget does not allow the eviction now.
    REFUSED = "Refused"
    # A fault of the server, or no answer, so that it may have been done all the same.
    FAILED = "Failed"
    # Not done on purpose: read-only, a dry run, or no longer the leader.
    SKIPPED = "Skipped"
