"""Every error Trellis raises on purpose.

    TrellisError
    ├── InvalidInput          what a user wrote cannot be used: the field, the value, the rule
    │   ├── InvalidQuantity
    │   ├── InvalidDuration
    │   ├── InvalidTime
    │   ├── InvalidSelector
    │   ├── InvalidSchedule
    │   ├── InvalidDocument   text that is not YAML or JSON, with line and column
    │   ├── UnreadableObject  JSON or YAML that is not an object of the kind it should be
    │   ├── InvalidCheckpoint stored history that cannot be taken over: which field
    │   ├── InvalidRecording  not what a component wrote down of what it saw, or not of a format that is known
    │   ├── InvalidSeries     usage over time that cannot be used: which file, and which row or column of it
    │   ├── InvalidScenario   a scenario that cannot be simulated, with all of its problems
    │   ├── InvalidConfiguration  a configuration file that is refused, with all that is wrong with it
    │   ├── InvalidMessage    bytes that are no protobuf message of the kind they should be: which kind
    │   ├── InvalidReview     not a question that an API server asks a webhook, or not one that we can answer
    │   └── BadKubeconfig     no way to a cluster can be read from a file: which file, and what to do
    ├── KubeError             the API server said no, or nothing: code, reason, message, details
    │   ├── Unauthorized      401: who is asking is not known, or no longer
    │   ├── Forbidden         403: known, and not allowed
    │   ├── NotFound          404
    │   ├── Conflict          409: the object is not, or no longer, what the request says it is
    │   ├── AlreadyExists     409: the name is taken
    │   ├── Expired           410: the version or continue token asked for is gone; list anew
    │   ├── Invalid           422: the object is refused, field by field
    │   ├── Throttled         429: later; `retry_after` says when, if the server does
    │   ├── ServerFault       5xx, or an answer that cannot be understood
    │   └── Unreachable       no answer: connection, TLS, timeout; it is unknown whether the request was carried out
    ├── PrometheusError       no usage from Prometheus
    │   ├── PrometheusUnreachable   no answer: connection, TLS, timeout
    │   └── PrometheusRefused       an answer that is an error, or none that can be read: status, kind, message
    │       └── PrometheusLimitExceeded   what was asked for is more than the server, or we, can take in one piece
    ├── RecommenderFailure    a recommender gave no answer: which one, and why
    └── InternalError         a promise of our own code does not hold: a bug, never the user's fault

A foreign error is kept as the cause (`raise ... from error`), never passed on bare.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import msgspec


class TrellisError(Exception):
    """The root: catch this to catch everything Trellis raises on purpose."""


class InvalidInput(TrellisError):
    """Something a user wrote is refused. `value` is what was written and `rule` what it breaks."""

    # The maximum length of the value in a message.
    max_shown: ClassVar[int] = 80

    def __init__(self, value: object, rule: str) -> None:
        self.value = value
        self.rule = rule
        super().__init__(f"{format_value(value, self.max_shown)}: {rule}")


class InvalidQuantity(InvalidInput):
    """Not a Kubernetes quantity."""


class InvalidDuration(InvalidInput):
    """Not a Go duration such as `90s` or `1h30m`."""


class InvalidTime(InvalidInput):
    """Not an RFC 3339 time."""


class InvalidSelector(InvalidInput):
    """Not a label selector."""


class InvalidSchedule(InvalidInput):
    """Not a cron expression, or not a time zone."""


class InvalidDocument(InvalidInput):
    """Text that cannot be read as YAML or JSON; `line` and `column` count from 1."""

    def __init__(self, value: object, rule: str, line: int, column: int) -> None:
        super().__init__(value, rule)
        self.line = line
        self.column = column


class UnreadableObject(InvalidInput):
    """Not an object of the kind it should be; `value` is its namespace and name, the rule names the field."""


class InvalidCheckpoint(InvalidInput):
    """Stored history that cannot be taken over; `field` is where in the checkpoint, and the message names it too."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(value, f"{field} {rule}")
        self.field = field


class InvalidRecording(InvalidInput):
    """Not what a component wrote down of what it saw, or not in a format that we know."""

    max_shown = 4096


class InvalidSeries(InvalidInput):
    """Usage over time that cannot be used; `value` is the file, the rule names the row or column and what is wrong."""

    # As of a kubeconfig: a path that is cut off names no file.
    max_shown = 4096

    def __init__(self, value: object, rule: str) -> None:
        # Rules quote names of columns and series, and a file that is none of usage may have anything there.
        super().__init__(value, escape_unprintable(rule))


class InvalidScenario(InvalidInput):
    """A scenario that cannot be simulated; `problems` has all of its problems, `rule` the first."""

    def __init__(self, value: object, problems: Sequence[object]) -> None:
        super().__init__(value, str(problems[0]))
        self.problems = tuple(problems)


class InvalidConfiguration(InvalidInput):
    """A configuration file that is refused; `value` is the file, `problems` is all that is wrong with it."""

    # A path that is cut off names no file.
    max_shown = 4096

    def __init__(self, value: object, problems: Sequence[str]) -> None:
        super().__init__(str(value), escape_unprintable("; ".join(problems)))
        self.problems = tuple(problems)


class InvalidReview(InvalidInput):
    """Not a question that an API server asks a webhook, or not in a version that we know."""


class InvalidMessage(InvalidInput):
    """Bytes that are no protobuf message of the kind they should be; `value` is the kind."""


class BadKubeconfig(InvalidInput):
    """No way to a cluster can be read; `value` is the file, the rule says what is wrong and what to do."""

    # A path that is cut off names no file. Linux has none that is longer.
    max_shown = 4096


class Cause(msgspec.Struct, frozen=True):
    """One of the things that the API server objects to; `field` is empty if it is not about one."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server adds to an error: the object it is about and all that is wrong with it."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class KubeError(TrellisError):
    """The API server refused or failed.

    `code` is the HTTP status, 0 if there was no answer. `reason` is the server's one word, such as `NotFound`.
    `retry_after` is in seconds, and None if the server does not say.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Details = Details(),  # noqa: B008 - frozen, so that one can serve all
        *,
        retry_after: float | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        super().__init__(message)


class Unauthorized(KubeError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(KubeError):
    """403: RBAC, a quota or an admission plug-in says no."""


class NotFound(KubeError):
    """404: no such object, or no such kind."""


class Conflict(KubeError):
    """409: another client was faster, or a precondition does not hold."""


class AlreadyExists(KubeError):
    """409 too, of a create: the name is taken."""


class Expired(KubeError):
    """410: what was asked for is too old to be known."""


class Invalid(KubeError):
    """422: the object, or the patch, is refused; `details.causes` has every field."""


class Throttled(KubeError):
    """429: too many requests, or an eviction that a disruption budget does not allow now."""


class ServerFault(KubeError):
    """5xx, or an answer that cannot be understood."""


class Unreachable(KubeError):
    """No answer, or half of one. A write may have been carried out all the same."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


class PrometheusError(TrellisError):
    """A query to Prometheus failed."""


class PrometheusUnreachable(PrometheusError):
    """No answer, or half of one."""


class PrometheusRefused(PrometheusError):
    """Prometheus refused a query, with its message. `status` is that of HTTP; `kind` is its `errorType`, or empty."""

    def __init__(self, message: str, status: int = 0, kind: str = "") -> None:
        self.status = status
        self.kind = kind
        super().__init__(message)


class PrometheusLimitExceeded(PrometheusRefused):
    """Too many samples, too long an answer, too slow a query: asking for less may help."""


class RecommenderFailure(TrellisError):
    """A recommender gave no answer. The message says which one and why, and is what its VPAs say."""


class InternalError(TrellisError):
    """A promise of our own code does not hold. Please report it."""


def escape_unprintable(text: str) -> str:
    """A text that does nothing to a terminal but appear on it: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def format_value(value: object, limit: int = 80) -> str:
    """A value as it belongs into a message: as JSON has it, on one line, cut if it is long."""
    text = escape_unprintable(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= limit else text[: limit - 3] + "..."


def quote_name(name: str) -> str:
    """A name that a person must find again, such as that of a file or an entry: quoted, and never cut."""
    return escape_unprintable(json.dumps(name, ensure_ascii=False))
