"""Logs: one line on stderr for each record, as text or JSON, with structured fields and without credentials.

    log = Logger("trellis.updater").bind(vpa="default/web")
    log.info("resized", pod="web-0", cpu="250m")
    log.detail(4, "looked", pods=3)

The amount is chosen with `--v`, from 0 to 10, as with every component of Kubernetes: `detail(n, ...)` shows from
`--v=n` on. The standard library does the rest. Its INFO is 20 and its DEBUG is 10, and so `detail(n)` is the level 20
- n, and what other libraries log at DEBUG shows with `--v=10`.

Credentials are redacted by the name of their field and by their format.
"""

from __future__ import annotations

import io
import json
import logging
import re
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final, TextIO

from trellis.base.times import format_micro_time
from trellis.runtime.settings.declarations import Reload, Setting, Settings

HIDDEN: Final = "(hidden)"

# Anywhere in a name: `tokens_left` is hidden along with `bearerToken`, because a leak cannot be undone.
_SECRET_NAMES: Final = re.compile(
    r"token|passw|secret|authorization|credential|private_?key|client_?key|cookie", re.IGNORECASE
)
# Bearer tokens, JSON Web Tokens, which every service account has, and passwords inside of URLs.
_SECRET_TEXTS: Final = re.compile(
    r"(?P<scheme>\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/=._~-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
    r"|(?P<user>://[^\s/:@]*:)[^\s/@]+(?=@)"
)


def redact(text: str) -> str:
    """Text without anything that looks like a credential."""
    return _SECRET_TEXTS.sub(lambda match: (match["scheme"] or match["user"] or "") + HIDDEN, text)


def is_secret(name: str) -> bool:
    """Whether a field of this name may hold a credential."""
    return _SECRET_NAMES.search(name) is not None


_FIELDS: Final = "trellis_fields"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,")


class LogFormat(StrEnum):
    """How a record is written."""

    TEXT = "text"
    JSON = "json"


# Everything goes to stderr here, and into one stream. Upstream's manifests may say otherwise, and must still start.
_UNUSED: Final = Setting("Has no effect.", why="Logs go to stderr.", obsolete=True)

_EVERYTHING: Final = 10


class LogSettings(Settings, frozen=True):
    """Log level and format."""

    title: ClassVar[str] = "Logging"
    of_process: ClassVar[bool] = True
    reload: ClassVar[Reload | None] = Reload.AT_ONCE

    verbosity: Annotated[
        int,
        Setting(
            "Log level: 0 logs what an operator must know, 4 also one line for each decision, 10 everything.",
            why="The level of upstream's manifests.",
            flag="v",
            letter="v",
            minimum=0,
        ),
    ] = 4
    format: Annotated[
        LogFormat,
        Setting(
            "Log format.", why="Text is easier to read with kubectl logs; JSON is easier to search.", flag="log-format"
        ),
    ] = LogFormat.TEXT
    stderrthreshold: Annotated[str, _UNUSED] = "info"
    legacy_stderr_threshold_behavior: Annotated[bool, _UNUSED] = True
    logtostderr: Annotated[bool, _UNUSED] = True
    alsologtostderr: Annotated[bool, _UNUSED] = False
    alsologtostderrthreshold: Annotated[str, _UNUSED] = ""
    log_dir: Annotated[str, _UNUSED] = ""
    log_file: Annotated[str, _UNUSED] = ""
    log_file_max_size: Annotated[int, _UNUSED] = 1800
    log_backtrace_at: Annotated[str, _UNUSED] = ""
    add_dir_header: Annotated[bool, _UNUSED] = False
    skip_headers: Annotated[bool, _UNUSED] = False
    skip_log_headers: Annotated[bool, _UNUSED] = False
    one_output: Annotated[bool, _UNUSED] = False
    vmodule: Annotated[str, _UNUSED] = ""


class Logger:
    """Writes records that carry the fields it is bound to."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, name: str, **fields: object) -> None:
        self._logger = logging.getLogger(name)
        self._fields = fields

    def bind(self, **fields: object) -> Logger:
        """A logger with more fields."""
        return Logger(self._logger.name, **{**self._fields, **fields})

    def detail(self, verbosity: int, message: str, **fields: object) -> None:
        """Log a detail, shown from the given verbosity on."""
        self._write(logging.INFO - verbosity, message, None, fields)

    def info(self, message: str, **fields: object) -> None:
        """Log what an operator should see."""
        self._write(logging.INFO, message, None, fields)

    def warning(self, message: str, *, error: BaseException | None = None, **fields: object) -> None:
        """Log a problem that Trellis retries or works around."""
        self._write(logging.WARNING, message, error, fields)

    def error(self, message: str, *, error: BaseException | None = None, **fields: object) -> None:
        """Log a problem that does not go away by itself."""
        self._write(logging.ERROR, message, error, fields)

    def _write(self, level: int, message: str, error: BaseException | None, fields: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            extra = {_FIELDS: {**self._fields, **fields}}
            self._logger.log(level, "%s", message, extra=extra, exc_info=error)


class LineFormatter(logging.Formatter):
    """Formats a record as one line, whatever its content."""

    def __init__(self, style: LogFormat) -> None:
        super().__init__()
        self._write = _as_json if style is LogFormat.JSON else _as_text

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        fields: dict[str, str] = {}
        for name, value in getattr(record, _FIELDS, {}).items():
            fields[name] = HIDDEN if is_secret(name) else redact(str(value))
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields["error"] = redact(str(error) or type(error).__name__)
            fields["stack"] = redact(_stack(error))
        head = {
            "time": format_micro_time(datetime.fromtimestamp(record.created, UTC)),
            "level": _level(record.levelno),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        return self._write(head, fields)


def configure(settings: LogSettings, stream: TextIO) -> logging.Handler:
    """Send all logs of this process to the stream, in place of the previous configuration."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(settings.format))
    root = logging.getLogger()
    for former in list(root.handlers):
        root.removeHandler(former)
    root.addHandler(handler)
    # klog accepts any number; 10 is everything.
    root.setLevel(logging.INFO - min(settings.verbosity, _EVERYTHING))
    return handler


def _as_text(head: dict[str, str], fields: dict[str, str]) -> str:
    start = f"{head['time']} {head['level']:<7} {head['logger']}: {_join_lines(head['message'])}"
    return " ".join([start, *(f"{name}={_quoted(value)}" for name, value in fields.items())])


def _as_json(head: dict[str, str], fields: dict[str, str]) -> str:
    # A field with the name of one of the four first fields must not replace it.
    clashing = {f"field_{name}" if name in head else name: value for name, value in fields.items()}
    return _json_text({**head, **clashing})


def _level(number: int) -> str:
    if number < logging.INFO:
        return f"v{logging.INFO - number}" if number >= logging.DEBUG else "v10"
    return logging.getLevelName(number).lower()


def _stack(error: BaseException) -> str:
    """The stack of an error. For a `TrellisError` it is that of its cause."""
    text = io.StringIO()
    traceback.print_exception(error, file=text, limit=-8)
    return text.getvalue().rstrip()


def _quoted(value: str) -> str:
    return value if value and _PLAIN.issuperset(value) else _json_text(value)


def _join_lines(text: str) -> str:
    return text if text.isprintable() else _json_text(text)[1:-1]


def _json_text(value: str | dict[str, str]) -> str:
    """JSON on one line: readers differ in which characters of Unicode end one, so that all that do not print go."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
