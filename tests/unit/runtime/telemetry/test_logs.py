"""One line for each record, with fields, at the chosen verbosity, and without secrets."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trellis.runtime.telemetry.logs import LogFormat, Logger, LogSettings, configure

Log = Callable[..., io.StringIO]


@pytest.fixture
def log_to() -> Iterator[Log]:
    """Sends the logs of the process to a buffer, and puts everything back afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def start(style: LogFormat = LogFormat.TEXT, verbosity: int = 4) -> io.StringIO:
        stream = io.StringIO()
        configure(LogSettings(verbosity=verbosity, format=style), stream)
        return stream

    yield start
    root.handlers[:] = handlers
    root.setLevel(level)


def records(stream: io.StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_text_has_time_level_logger_message_and_fields(log_to: Log) -> None:
    stream = log_to()
    Logger("trellis.updater", vpa="default/web").bind(pod="web-0").info("pod resized", cpu="250m", why="it grew")
    line = stream.getvalue()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z info    trellis.updater: pod resized ", line)
    assert line.endswith(' vpa=default/web pod=web-0 cpu=250m why="it grew"\n')


def test_json_has_the_same_as_members(log_to: Log) -> None:
    stream = log_to(LogFormat.JSON)
    Logger("trellis.updater", vpa="default/web").warning("late", seconds=3)
    (record,) = records(stream)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "warning",
        "logger": "trellis.updater",
        "message": "late",
        "vpa": "default/web",
        "seconds": "3",
    }


@pytest.mark.parametrize("verbosity", [0, 1, 4, 10, 11, 99])
def test_details_show_from_their_verbosity_on(log_to: Log, verbosity: int) -> None:
    stream = log_to(LogFormat.JSON, verbosity)
    log = Logger("trellis.test")
    for number in range(1, 11):
        log.detail(number, f"detail {number}")
    log.info("always")
    shown = [record["level"] for record in records(stream)]
    assert shown == [f"v{number}" for number in range(1, min(verbosity, 10) + 1)] + ["info"]


def test_other_libraries_are_written_the_same_way(log_to: Log) -> None:
    stream = log_to(LogFormat.JSON, 10)
    logging.getLogger("some.library").debug("%d things", 3)
    (record,) = records(stream)
    assert (record["logger"], record["message"], record["level"]) == ("some.library", "3 things", "v10")


def test_a_bound_logger_leaves_the_first_one_as_it_was(log_to: Log) -> None:
    stream = log_to(LogFormat.JSON)
    log = Logger("trellis.test")
    log.bind(pod="web-0")
    log.info("hello")
    assert "pod" not in records(stream)[0]


@pytest.mark.parametrize("style", list(LogFormat))
def test_an_error_with_its_stack_is_still_one_line(log_to: Log, style: LogFormat) -> None:
    def has_a_bug() -> None:
        raise ZeroDivisionError("a\nbug")

    stream = log_to(style)
    with pytest.raises(ZeroDivisionError) as caught:
        has_a_bug()
    Logger("trellis.test").error("failed", error=caught.value, pod="web-0")
    (line,) = stream.getvalue().splitlines()
    assert r"a\nbug" in line
    assert "has_a_bug" in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token", "abc"),
        ("bearerToken", "abc"),
        ("prometheus_password", "abc"),
        ("Authorization", "abc"),
        ("client_key_data", "abc"),
        ("header", "Bearer abcdefgh12345"),
        ("text", "got eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl back"),
        ("url", "http://user:abcdefgh@prometheus:9090/"),
    ],
)
def test_credentials_are_hidden(log_to: Log, name: str, value: str) -> None:
    stream = log_to()
    Logger("trellis.test").info("calling", **{name: value})
    assert "(hidden)" in stream.getvalue()
    assert not re.search(r"abc|eyJ", stream.getvalue())


def test_credentials_in_messages_and_errors_are_hidden(log_to: Log) -> None:
    stream = log_to(LogFormat.JSON)
    Logger("trellis.test").error("sent Bearer abcdefgh12345", error=ValueError("Basic YWxhZGRpbjpvcGVu"))
    (record,) = records(stream)
    assert record["message"] == "sent Bearer (hidden)"
    assert record["error"] == "Basic (hidden)"
    assert "YWxhZGRpbjpvcGVu" not in record["stack"]


def test_a_field_cannot_pass_for_the_message(log_to: Log) -> None:
    stream = log_to(LogFormat.JSON)
    Logger("trellis.test", level="fake").info("real")
    (record,) = records(stream)
    assert (record["level"], record["field_level"]) == ("info", "fake")


@given(message=st.text(), value=st.text(), style=st.sampled_from(LogFormat))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_record_is_always_one_line(log_to: Log, message: str, value: str, style: LogFormat) -> None:
    stream = log_to(style)
    Logger("trellis.test").info(message, field=value)
    assert len(stream.getvalue().splitlines()) == 1
    assert stream.getvalue().endswith("\n")
