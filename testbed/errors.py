"""The errors of the testbed itself."""

from __future__ import annotations


class HarnessError(RuntimeError):
    """The testbed failed, not what it tests. The message says what to do about it."""


class GoMissing(HarnessError):
    """No recent Go toolchain is installed."""


class BuildFailed(HarnessError):
    """A program could not be compiled. The message ends with what the compiler said."""


class ProgramDied(HarnessError):
    """A program ended unexpectedly. The message ends with the last lines of its log."""


class TimedOut(HarnessError):
    """A condition did not hold within its timeout."""


class Refused(HarnessError):
    """The API server answered with an error. `status` is the HTTP status, `body` the whole Status object."""

    def __init__(self, request: str, status: int, body: dict[str, object]) -> None:
        super().__init__(f"{request}: {status} {body.get('reason', '')}: {body.get('message', '')}")
        self.status = status
        self.reason = str(body.get("reason", ""))
        self.message = str(body.get("message", ""))
        self.body = body
