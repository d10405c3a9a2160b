"""The model is tuned and retains history as VPAs need it, by changes only."""

from __future__ import annotations

from typing import Any

import msgspec

from support.builders.manifests import policy, vpa
from trellis.api.feature_gates import FeatureGates
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.state.retention import UsageRetention
from trellis.core.recommend.state.tables import ServedVpa, read_served_vpa
from trellis.core.usage.model import UsageModel
from trellis.core.usage.settings import Tuning
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

WEB = ("shop", "web")


class RecordingModel(UsageModel):
    """A model that records calls of `tune`."""

    def __init__(self) -> None:
        super().__init__()
        self.tuned: list[tuple[str, Tuning | None]] = []

    def tune(self, namespace: str, vpa: str, container: str, tuning: Tuning | None) -> None:
        self.tuned.append((container, tuning))
        super().tune(namespace, vpa, container, tuning)

    def pop_calls(self) -> list[tuple[str, Tuning | None]]:
        """The calls since the last `pop_calls`."""
        calls, self.tuned = self.tuned, []
        return calls


def served(document: dict[str, Any]) -> ServedVpa:
    return read_served_vpa(msgspec.convert(document, VerticalPodAutoscaler), None)


def a_pod(*containers: str) -> TrackedPod:
    made = tuple(TrackedContainer(name) for name in containers)
    return TrackedPod("shop", "web-0", "u", "web", True, made)


def test_memory_is_counted_by_the_overrides_of_the_vpa_until_they_are_removed() -> None:
    model, known = RecordingModel(), dict[ObjectKey, ServedVpa]()
    retention = UsageRetention(model, known, FeatureGates())
    known[WEB] = served(policy(oomBumpUpRatio="1.5"))
    retention.tune([a_pod("app", "proxy")])
    assert model.pop_calls() == [("app", Tuning(oom_bump_up_ratio=1.5))]
    known[WEB] = served(vpa())
    retention.tune([a_pod("app", "proxy")])
    assert model.pop_calls() == [("app", None)]
    retention.tune([a_pod("app", "proxy")])
    assert model.pop_calls() == []


def test_tunings_of_a_vpa_that_is_served_no_longer_are_dropped() -> None:
    model, known = RecordingModel(), dict[ObjectKey, ServedVpa]()
    retention = UsageRetention(model, known, FeatureGates())
    known[WEB] = served(policy(oomBumpUpRatio="1.5"))
    retention.tune([a_pod("app")])
    retention.forget(WEB)
    model.pop_calls()
    known[WEB] = served(vpa())
    retention.tune([a_pod("app")])
    assert model.pop_calls() == []


def test_without_the_feature_gate_overrides_are_ignored() -> None:
    model = RecordingModel()
    UsageRetention(model, {WEB: served(policy(oomBumpUpRatio="1.5"))}, FeatureGates(per_vpa_config=False)).tune(
        [a_pod("app")]
    )
    assert model.pop_calls() == []
