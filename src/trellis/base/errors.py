"""Every error Trellis raises on purpose.

    TrellisError
    ├── InvalidInput          what a user wrote cannot be used: the field, the value, the rule
    │   ├── InvalidQuantity
    │   ├── InvalidDuration
    │   ├── InvalidTime
    │   ├── InvalidSelector
    │   ├── InvalidSchedule
    │   ├── InvalidDocument   text that is not YAML or JSON, with line and column
    │   └── UnreadableObject  JSON or YAML that is not an object of the kind it should be
    └── InternalError         a promise of our own code does not hold: a bug, never the user's fault

A foreign error is kept as the cause (`raise ... from error`), never passed on bare.
"""

from __future__ import annotations

import json


class TrellisError(Exception):
    """The root: catch this to catch everything Trellis raises on purpose."""


class InvalidInput(TrellisError):
    """Something a user wrote is refused. `value` is what was written and `rule` what it breaks."""

    def __init__(self, value: object, rule: str) -> None:
        self.value = value
        self.rule = rule
        super().__init__(f"{shown(value)}: {rule}")


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


class InternalError(TrellisError):
    """A promise of our own code does not hold. Please report it."""


def shown(value: object, limit: int = 80) -> str:
    """A value as it belongs into a message: as JSON has it, on one line, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= limit else text[: limit - 3] + "..."
