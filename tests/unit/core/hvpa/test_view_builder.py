"""When has a pod lost the requests that were decided? When it had all of them, and an edit took some away."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.builders.manifests import hvpa as hvpa_document
from support.worlds.hvpas import NOW, decided, meaning, view
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import PodRecommendation
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.scaling import Scale, ScaleSpec
from trellis.core.hvpa.autoscalers import RelatedAutoscalers
from trellis.core.hvpa.drift import REQUESTS_DRIFTED
from trellis.core.hvpa.remembered_state import HvpaMemory
from trellis.core.hvpa.view_builder import HvpaPod, PodEdit, build_view

LEFT_ALONE = {"containerPolicies": [{"containerName": "helper", "mode": "Off"}]}
OWN_VPA = {"deploy": True, "template": {"spec": {"resourcePolicy": LEFT_ALONE}}}
PUBLISHED = {"app": {"cpu": "2"}}
Requests = dict[str, dict[str, str]]


def a_pod(requests: Requests) -> HvpaPod:
    containers = [{"name": name, "resources": {"requests": request}} for name, request in requests.items()]
    document = {"metadata": {"name": "web-0", "namespace": "shop"}, "spec": {"containers": containers}}
    return convert_object({**document, "status": {"phase": "Running"}}, HvpaPod)


def is_lost(before: Requests, after: Requests, published: Requests = PUBLISHED) -> bool:
    """Whether a plan is told of an edit of the only pod."""
    hvpa = msgspec.convert(hvpa_document(vpa=OWN_VPA), Hvpa)
    parts: list[Any] = [{"containerName": name, "target": amounts} for name, amounts in published.items()]
    edit = PodEdit(a_pod(before), a_pod(after))
    view = build_view(
        hvpa,
        meaning(),
        Scale(spec=ScaleSpec(1)),
        [edit.after],
        RelatedAutoscalers([], [], []),
        spec_replicas=None,
        published=msgspec.convert({"containerRecommendations": parts}, PodRecommendation),
        memory=HvpaMemory(),
        edits=[edit],
    )
    return view.requests_edited


@pytest.mark.parametrize("after", [{"cpu": "1"}, {"cpu": "3"}, {}, {"memory": "2G"}])
def test_a_pod_that_had_what_was_decided_and_has_something_else_has_lost_it(after: dict[str, str]) -> None:
    assert is_lost({"app": {"cpu": "2"}}, {"app": after})


def test_the_same_amount_in_other_words_is_no_loss() -> None:
    assert not is_lost({"app": {"cpu": "2"}}, {"app": {"cpu": "2000m"}})


def test_resources_without_a_decision_may_change() -> None:
    assert not is_lost({"app": {"cpu": "2", "memory": "1G"}}, {"app": {"cpu": "2", "memory": "2G"}})
    assert is_lost({"app": {"cpu": "2", "memory": "1G"}}, {"app": {"cpu": "1", "memory": "1G"}})


def test_a_pod_that_was_on_its_way_to_what_was_decided_has_lost_nothing() -> None:
    assert not is_lost({"app": {"cpu": "1"}}, {"app": {"cpu": "1500m"}})
    assert not is_lost({"app": {"cpu": "1"}}, {"app": {"cpu": "2"}})


def test_a_container_that_is_left_alone_neither_loses_anything_nor_stands_in_the_way() -> None:
    published = {**PUBLISHED, "helper": {"cpu": "1"}}
    whole = {"app": {"cpu": "2"}, "helper": {"cpu": "1"}}
    assert not is_lost(whole, {**whole, "helper": {"cpu": "3"}}, published)
    assert is_lost({**whole, "helper": {"cpu": "3"}}, {"app": {"cpu": "1"}, "helper": {"cpu": "3"}}, published)


def test_without_a_published_size_no_edit_counts_as_drift() -> None:
    assert not is_lost({"app": {"cpu": "2"}}, {"app": {"cpu": "1"}}, {})


def test_an_edit_is_reported_even_where_the_window_is_none() -> None:
    observed = view(1, {"cpu": 2000}, meaning=meaning(scaleDown={"stabilizationWindow": "0s"}), requests_edited=True)
    first = decided(observed)
    assert REQUESTS_DRIFTED in first.summary.notes
    later = decided(msgspec.structs.replace(observed, requests_edited=False, memory=first.memory), NOW + 1)
    assert REQUESTS_DRIFTED not in later.summary.notes


def test_another_edit_is_reported_for_a_window_of_its_own() -> None:
    observed = view(1, {"cpu": 2000}, requests_edited=True)
    first = decided(observed)
    again = decided(msgspec.structs.replace(observed, memory=first.memory), NOW + 200)
    later = decided(msgspec.structs.replace(observed, requests_edited=False, memory=again.memory), NOW + 450)
    assert REQUESTS_DRIFTED in later.summary.notes
    assert later.requeue_at == NOW + 500
