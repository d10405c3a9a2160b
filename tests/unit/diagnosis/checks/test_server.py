"""The API server: version, gates, clocks."""

from __future__ import annotations

from typing import Any

import pytest

from trellis.base.reasons import Reason
from trellis.diagnosis.checks import server
from trellis.diagnosis.checks.server import ServerFacts, check_clocks, check_gates, check_server
from trellis.diagnosis.findings import Level
from trellis.diagnosis.unread import Unread


def facts(version: str = "v1.36.3", number: tuple[int, int] = (1, 36), **changes: Any) -> ServerFacts:
    return ServerFacts(version, number, **{"skew": 0.4, **changes})


def test_a_current_version_lacks_nothing() -> None:
    result = check_server(facts())
    assert (result.level, result.summary) == (Level.OK, "v1.36.3 resizes pods in place")


def test_what_a_version_lacks_is_part_of_the_line() -> None:
    assert "memory limits are lowered by eviction" in check_server(facts("v1.33.0", (1, 33))).summary


@pytest.mark.parametrize(
    ("found", "reason", "action"),
    [
        (facts("v1.28.1", (1, 28)), server.KUBERNETES_TOO_OLD, "upgrade"),
        (
            facts("v1.32.0", (1, 32), resizes_pods=False),
            server.RESIZE_NOT_AVAILABLE,
            "upgrade the control plane to 1.33",
        ),
        (facts(resizes_pods=False), server.RESIZE_NOT_AVAILABLE, "feature gate InPlacePodVerticalScaling"),
    ],
)
def test_a_version_that_lacks_something_is_found(found: ServerFacts, reason: Reason, action: str) -> None:
    (finding,) = check_server(found).findings
    assert (finding.reason, action in finding.action) == (reason, True)


def test_a_version_without_a_number_is_unknown() -> None:
    assert check_server(facts("devel", (0, 0))).level is Level.UNKNOWN


def test_a_gate_that_is_off_is_found() -> None:
    (finding,) = check_gates(facts(gates={"InPlacePodVerticalScaling": False})).findings
    assert finding.reason is server.FEATURE_GATE_OFF
    assert check_gates(facts(gates={"InPlacePodVerticalScaling": True})).summary == "InPlacePodVerticalScaling is on"


def test_gates_that_are_not_visible_are_unknown_or_not_listed() -> None:
    assert check_gates(facts(gates=Unread("feature gates", "may not be read"))).level is Level.UNKNOWN
    assert check_gates(facts(gates={})).level is Level.OK


@pytest.mark.parametrize(("skew", "side"), [(90.0, "ahead of"), (-90.0, "behind")])
def test_a_clock_that_differs_is_found(skew: float, side: str) -> None:
    (finding,) = check_clocks(facts(skew=skew)).findings
    assert (finding.reason, f"90 s {side}" in finding.message) == (server.CLOCKS_DIFFER, True)


def test_a_lease_renewed_in_the_future_shows_a_clock_that_is_ahead() -> None:
    (finding,) = check_clocks(facts(lease_skews={"kube-system/vpa-updater": 30.0, "a/b": 1.0})).findings
    assert finding.subject == "Lease kube-system/vpa-updater"


def test_clocks_agree_or_are_unknown() -> None:
    assert check_clocks(facts()).level is Level.OK
    assert check_clocks(facts(skew=None)).level is Level.UNKNOWN
