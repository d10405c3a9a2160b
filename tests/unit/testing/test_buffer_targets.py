"""The conformance suite for kinds of targets: a sound one passes it, and whoever breaks a rule is caught by it."""

# ruff: noqa: ARG002 - who breaks a rule need not look at the object

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trellis.base.selectors import Selector
from trellis.core.buffers import TargetReading, selector_in
from trellis.testing.buffer_targets import CHECKS, conformance_tests, find_failures

LABELS = {"matchLabels": {"app": "chess"}}
SPEC = {"containers": [{"name": "server", "resources": {"requests": {"cpu": "1"}}}]}
CHESS: dict[str, Any] = {"metadata": {"name": "chess"}, "spec": {"labels": {"app": "chess"}}, "status": {"running": 2}}


class Sound:
    """A kind that keeps to all rules."""

    api_version, kind, plural = "games.example.com/v1", "GameServerSet", "gameserversets"

    def read(self, document: Mapping[str, Any]) -> TargetReading:
        template = {"metadata": {"labels": document["spec"]["labels"]}, "spec": SPEC}
        return TargetReading(document.get("status", {}).get("running", 0), selector_in(LABELS), template)


test_a_sound_kind_conforms = conformance_tests(Sound, [CHESS])


class Nameless(Sound):
    plural = "GameServerSets"


class Negative(Sound):
    def read(self, document: Mapping[str, Any]) -> TargetReading:
        return TargetReading(-1, selector_in(LABELS))


class Greedy(Sound):
    def read(self, document: Mapping[str, Any]) -> TargetReading:
        return TargetReading(1, Selector.everything())


class Estranged(Sound):
    def read(self, document: Mapping[str, Any]) -> TargetReading:
        return TargetReading(1, selector_in(LABELS), {"metadata": {"labels": {"app": "go"}}, "spec": SPEC})


class Empty(Sound):
    def read(self, document: Mapping[str, Any]) -> TargetReading:
        return TargetReading(1, selector_in(LABELS), {"metadata": {"labels": {"app": "chess"}}, "spec": {}})


class Hasty(Sound):
    def read(self, document: Mapping[str, Any]) -> TargetReading:
        return TargetReading(document["status"]["running"], selector_in(LABELS))


class Meddling(Sound):
    def read(self, document: Mapping[str, Any]) -> TargetReading:
        document["spec"]["seen"] = True
        return super().read(document)


class Fickle(Sound):
    def __init__(self) -> None:
        self._asked = 0

    def read(self, document: Mapping[str, Any]) -> TargetReading:
        self._asked += 1
        return TargetReading(self._asked, selector_in(LABELS))


class Nosy(Sound):
    def read(self, document: Mapping[str, Any]) -> TargetReading:
        Path(__file__).read_text()
        return super().read(document)


class Hurried(Sound):
    def read(self, document: Mapping[str, Any]) -> TargetReading:
        return TargetReading(int(time.time()) and 1, selector_in(LABELS))


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (Nameless, "declares-itself"),
        (Negative, "reads-every-object"),
        (Greedy, "reads-every-object"),
        (Estranged, "yields-a-chunk"),
        (Empty, "yields-a-chunk"),
        (Hasty, "reads-objects-without-status"),
        (Meddling, "leaves-objects-unchanged"),
        (Fickle, "is-deterministic"),
        (Nosy, "does-no-io"),
        (Hurried, "reads-no-clock"),
    ],
)
def test_breaking_a_rule_fails_its_check(kind: type[Sound], rule: str) -> None:
    document = {**CHESS, "spec": dict(CHESS["spec"])}
    assert [failure.check for failure in find_failures(kind, [document])] == [rule]


def test_a_suite_without_objects_fails() -> None:
    assert [failure.check for failure in find_failures(Sound, [])] == ["reads-every-object"]


def test_each_rule_has_a_description() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) == 8
    assert all(check.description.endswith(".") for check in CHECKS)
