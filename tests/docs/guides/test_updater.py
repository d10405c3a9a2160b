"""The guide to the updater says what the code does: its reasons, flags, metrics and figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trellis.controllers.updater.settings import UpdaterSettings
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import compute_backoff

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "guides" / "updater.md").read_text()
WORDS = " ".join(PAGE.split())
REFERENCE = (DOCS / "reference" / "updater.md").read_text()
REASONS = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "reference" / "reasons.md").read_text(), re.MULTILINE))
# What upstream and the kubelet say, update modes and a resize policy.
OTHERS = {
    *("PodResizePending", "PodResizeInProgress"),
    *("InPlace", "InPlaceOnly", "InPlaceOrRecreate", "RestartContainer"),
}
# Flags of other commands.
ELSEWHERE = {"--webhook-address", "--webhook-port", "--register-by-url", "--recommender-interval", "--config"}
RULES = UpdateSettings()
MINUTE, HOUR = 60.0, 3600.0


def test_every_reason_it_names_is_one() -> None:
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]+)+)`", PAGE)) - OTHERS
    assert len(named) > 15
    assert named - REASONS == set()


def test_every_flag_it_names_is_one() -> None:
    named = set(re.findall(r"`(--[a-z-]+)", PAGE)) | set(re.findall(r"trellis updater (--[a-z-]+)", PAGE))
    assert {flag for flag in named - ELSEWHERE if f"`{flag}`" not in REFERENCE} == set()


def test_every_metric_it_names_is_one() -> None:
    for name in re.findall(r"`(\w+_updater_\w*[a-z])`", PAGE):
        assert f"| `{name}` |" in REFERENCE, name


def pauses(first: float, longest: float) -> list[float]:
    """The first, the second and the longest one."""
    return [compute_backoff(times, first, longest) for times in (1, 2, 99)]


@pytest.mark.parametrize(
    ("words", "figures", "meant"),
    [
        (
            "had no capacity for the resize for 5 minutes. - The resize has been in progress for an hour",
            [RULES.deferred_patience, RULES.progress_patience],
            [5 * MINUTE, HOUR],
        ),
        (
            "older than 12 hours, and its requests differ from the target by 10 % or more",
            [RULES.lifetime, RULES.update_threshold],
            [12 * HOUR, 0.1],
        ),
        (
            "retried after a minute, then after two, and so on up to half an hour",
            pauses(RULES.retry, RULES.longest_retry),
            [MINUTE, 2 * MINUTE, HOUR / 2],
        ),
        (
            "retries after 2 s, 4 s, and so on up to 5 minutes",
            pauses(RULES.unboost_retry, RULES.longest_unboost_retry),
            [2.0, 4.0, 5 * MINUTE],
        ),
        (
            "alone for an hour, after another eviction without effect for two, and so on up to a day",
            pauses(RULES.loop_backoff, RULES.longest_loop_backoff),
            [HOUR, 2 * HOUR, 24 * HOUR],
        ),
        ("16 at a time (`--concurrent-writes`)", [UpdaterSettings().loop.concurrent_writes], [16]),
    ],
)
def test_a_figure_is_that_of_the_settings(words: str, figures: list[float], meant: list[float]) -> None:
    assert words in WORDS
    assert figures == meant
