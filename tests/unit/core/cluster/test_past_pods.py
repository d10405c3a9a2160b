"""Whose history is a pod that is gone? By its governor, its labels or its name, in this order."""

from __future__ import annotations

import pytest

from trellis.base.selectors import parse_selector
from trellis.core.cluster.governance import TargetClaim
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.past_pods import PastPods, build_pod_name_pattern


def claim(name: str, selector: str, kind: str = "Deployment", target: str = "", created: float = 0.0) -> TargetClaim:
    reference = TargetRef("shop", "apps/v1", kind, target or name)
    return TargetClaim("shop", name, f"uid-{name}", created, reference, parse_selector(selector))


@pytest.mark.parametrize(
    ("kind", "pod", "is_one"),
    [
        ("Deployment", "web-6d4b75cb6d-x5k2p", True),
        ("Deployment", "web-x5k2p", False),
        ("Deployment", "web-api-6d4b75cb6d-x5k2p", False),
        ("Deployment", "webs-6d4b75cb6d-x5k2p", False),
        ("ReplicaSet", "web-x5k2p", True),
        ("DaemonSet", "web-x5k2p", True),
        ("Job", "web-x5k2p", True),
        ("Job", "web-3-x5k2p", True),
        ("CronJob", "web-28771230-x5k2p", True),
        ("CronJob", "web-x5k2p", False),
        ("StatefulSet", "web-12", True),
        ("StatefulSet", "web-x", False),
    ],
)
def test_names_follow_the_rules_of_their_controllers(kind: str, pod: str, is_one: bool) -> None:
    pattern = build_pod_name_pattern(TargetRef("shop", "", kind, "web"))
    assert pattern is not None
    assert bool(pattern.fullmatch(pod)) is is_one


def test_of_a_custom_kind_the_names_are_unknown() -> None:
    assert build_pod_name_pattern(TargetRef("shop", "argoproj.io/v1alpha1", "Rollout", "web")) is None


def test_the_governor_of_a_living_pod_wins_over_labels_and_name() -> None:
    pods = PastPods([claim("web", "app=web"), claim("api", "app=api")], {"web-6d4b75cb6d-x5k2p": "api"}, {})
    assert pods.find_governor("web-6d4b75cb6d-x5k2p") == "api"


def test_labels_win_over_the_name() -> None:
    claims = [claim("web", "app=web"), claim("api", "app=api")]
    pods = PastPods(claims, {}, {"web-6d4b75cb6d-x5k2p": {"app": "api"}, "web-6d4b75cb6d-b2c4d": {"app": "other"}})
    assert pods.find_governor("web-6d4b75cb6d-x5k2p") == "api"
    assert pods.find_governor("web-6d4b75cb6d-b2c4d") is None
    assert pods.find_governor("web-6d4b75cb6d-zzzzz") == "web"


def test_labels_as_prometheus_has_to_write_them_are_understood() -> None:
    pods = PastPods([claim("web", "app.kubernetes.io/name=web")], {}, {"gone": {"app_kubernetes_io_name": "web"}})
    assert pods.find_governor("gone") == "web"


def test_of_two_claims_on_a_name_the_older_has_it() -> None:
    claims = [claim("young", "app=a", target="web", created=2.0), claim("old", "app=b", target="web", created=1.0)]
    assert PastPods(claims, {}, {}).find_governor("web-6d4b75cb6d-x5k2p") == "old"
