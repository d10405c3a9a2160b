"""What the webhook keeps of a cluster is small, and what it remembers of pods is never out of date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controllers.admission import pod, recommendation
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.decoder import decode_object
from trellis.api.kube.observed_workloads import ObservedWorkload
from trellis.api.kube.pods import Pod
from trellis.core.admission.decisions import DecisionCache, GovernorIndex
from trellis.core.admission.pod_patches import POD_SIZED, PodAdmissionDecision, admit_pod
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling
from trellis.core.cluster.owners import Owners, TargetRef
from trellis.core.cluster.transforms import OwnerTransform
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor, get_governor
from trellis.runtime.cached_kinds import SIZING_VPAS

NO_LIMITS = NamespaceLimits()


def governor(name: str = "web", cpu: str = "400m", target: str = "web", **spec: Any) -> Governor:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    document = {
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"targetRef": reference, **spec},
        "status": recommendation({"app": {"cpu": cpu}}),
    }
    assert SIZING_VPAS.transform is not None
    governor = get_governor(SIZING_VPAS.transform()(msgspec.convert(document, VerticalPodAutoscaler)))
    assert governor is not None
    return governor


def read(document: Any) -> Pod:
    return decode_object(msgspec.json.encode(document), Pod)


def decided(memo: DecisionCache, document: Any, by: Governor, **other: Any) -> tuple[PodAdmissionDecision, bool]:
    """The verdict, and whether it had to be made."""
    made: list[PodAdmissionDecision] = []
    pod = read(document)
    limits, ceiling = other.get("limits", NO_LIMITS), other.get("ceiling")

    def decide() -> PodAdmissionDecision:
        made.append(admit_pod(pod, by, limits, BoostSettings(), lambda: ceiling))
        return made[0]

    return memo.find(pod, by, limits, ceiling, decide), bool(made)


def test_pods_that_are_alike_are_decided_once() -> None:
    memo, by = DecisionCache(), governor()
    first, made = decided(memo, pod(), by)
    assert made
    assert first.reason is POD_SIZED
    other = pod()
    other["metadata"]["name"] = "web-x-2"
    other["spec"]["volumes"] = [{"name": "kube-api-access-x7k2p", "projected": {}}]
    assert decided(memo, other, by)[0] is not first  # One volume more is another pod.
    other["spec"]["volumes"][0]["name"] = "kube-api-access-99999"
    assert decided(memo, other, by)[1] is False


def _annotated(document: Any) -> None:
    document["metadata"]["annotations"] = {"a": "b"}


def _larger(document: Any) -> None:
    document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "300m"


def _renamed(document: Any) -> None:
    document["spec"]["containers"][0]["name"] = "other"


def _joined(document: Any) -> None:
    document["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always"}]


@pytest.mark.parametrize("change", [_annotated, _larger, _renamed, _joined])
def test_pod_that_differs_in_anything_that_counts_is_decided_anew(change: Callable[[Any], None]) -> None:
    memo, by = DecisionCache(), governor()
    decided(memo, pod(), by)
    other = pod()
    change(other)
    assert decided(memo, other, by)[1]


def test_verdict_falls_with_what_it_rests_on() -> None:
    memo, by = DecisionCache(), governor()
    decided(memo, pod(), by)
    assert decided(memo, pod(), governor(cpu="500m"))[1]
    assert decided(memo, pod(), by)[1]
    assert decided(memo, pod(), by, limits=NamespaceLimits())[1]
    assert decided(memo, pod(), by, ceiling=CpuCeiling(1000, True))[1]
    assert not decided(memo, pod(), by, ceiling=CpuCeiling(1000, True))[1]


def test_memo_forgets_what_was_asked_for_longest_ago() -> None:
    memo, by = DecisionCache(capacity=2), governor()
    documents = [pod(image=f"i{number}", ports=[{"hostPort": number + 1}]) for number in range(3)]
    for document in documents:
        decided(memo, document, by)
    assert len(memo) == 2
    assert decided(memo, documents[2], by)[1] is False
    assert decided(memo, documents[0], by)[1] is True


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(("web", "api", None)), st.integers(2020, 2026)), max_size=20
    )
)
def test_index_has_what_is_there_and_nothing_else(steps: list[tuple[str, str | None, int]]) -> None:
    index = GovernorIndex()
    there: dict[str, Governor] = {}
    for name, target, _ in steps:
        compiled = governor(name, target=target) if target else None
        index.put("VerticalPodAutoscaler", "shop", name, compiled)
        there.pop(name, None)
        if compiled is not None:
            there[name] = compiled
    assert len(index) == len(there)
    assert index.governs_namespace("shop") == bool(there)
    workload = decode_object(b'{"spec":{"selector":{"matchLabels":{"app":"x"}}}}', ObservedWorkload)
    owners = Owners({"Deployment": lambda _namespace, _name: workload}, {})
    for target in ("web", "api"):
        claimants = sorted(
            (candidate for candidate in there.values() if candidate.claim.target.name == target),
            key=lambda candidate: candidate.claim.seniority,
        )
        ref = TargetRef("shop", "apps/v1", "Deployment", target)
        assert index.find(ref, {"app": "x"}, owners) is (claimants[0] if claimants else None)
        assert index.find(ref, {"app": "y"}, owners) is None


def test_of_a_vpa_its_targets_are_kept_and_not_its_bounds() -> None:
    compiled = governor(updatePolicy={"updateMode": "Initial"})
    assert [(advice.container, advice.target, advice.lower, advice.upper) for advice in compiled.advice] == [
        ("app", {"cpu": 400}, {}, {})
    ]
    assert compiled.kind == "VerticalPodAutoscaler"
    assert compiled.claim.target == TargetRef("shop", "apps/v1", "Deployment", "web")


def _replica_set(name: str, owner: str) -> ObservedWorkload:
    owners = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": "u", "controller": True}]
    metadata = {"name": name, "namespace": "shop", "uid": "x", "resourceVersion": "7", "ownerReferences": owners}
    document = {"metadata": metadata, "spec": {"selector": {"matchLabels": {"app": owner}}}}
    return decode_object(msgspec.json.encode(document), ObservedWorkload)


def test_of_a_replica_set_its_owner_is_kept_and_shared_with_the_next() -> None:
    slim = OwnerTransform()
    first, second, third = (slim(_replica_set(*names)) for names in (("a-1", "a"), ("a-2", "a"), ("b-1", "b")))
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.selector is None
    controller = third.metadata.controller
    assert controller is not None
    assert (controller.api_version, controller.kind, controller.name) == ("apps/v1", "Deployment", "b")
    assert (first.metadata.name, first.metadata.namespace) == ("a-1", "shop")


def test_workload_without_an_owner_keeps_its_selector() -> None:
    document = b'{"metadata":{"name":"a","namespace":"shop"},"spec":{"selector":{"matchLabels":{"app":"a"}}}}'
    workload = OwnerTransform()(decode_object(document, ObservedWorkload))
    assert workload.spec.selector is not None
    assert workload.spec.selector.match_labels == {"app": "a"}
