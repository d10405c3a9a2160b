"""What a boosted pod remembers, in upstream's key and JSON, and what becomes of a memory that somebody spoiled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import boosted
from support.worlds.boosts import container, effective, pod, start, with_memory
from trellis.core.boost.annotation import annotation_key, is_boosted, read_pre_boost_resources, restore_pre_boost_shape
from trellis.core.sizing.shapes import QosClass

DOUBLE = effective(boosted(type="Factor", factor=2))


@pytest.mark.req("SB-01")
def test_a_boosted_container_is_remembered_as_upstream_does_it() -> None:
    came = pod(with_memory(container("0.5", "1"), "1Gi"))
    assert start(came, DOUBLE).annotations == {
        "vpaCpuStartupBoost/app": '{"requests":{"cpu":"500m","memory":"1Gi"},"limits":{"cpu":"1"}}'
    }


def test_what_a_container_did_not_ask_for_is_an_empty_map() -> None:
    life = start(pod(container(None)), DOUBLE, {"app": "100m"})
    assert life.annotations == {"vpaCpuStartupBoost/app": '{"requests":{},"limits":{}}'}


def test_what_upstream_wrote_is_read() -> None:
    text = '{"requests":{"cpu":"250m","memory":"64Mi"},"limits":{"cpu":"1"}}'
    had = read_pre_boost_resources({annotation_key("app"): text, "vpaUpdates": "..."})["app"]
    assert (had.requests, had.limits, had.problem) == ({"cpu": 250, "memory": 64 << 20}, {"cpu": 1000}, "")


def test_nulls_and_numbers_are_read_as_kubernetes_would() -> None:
    had = read_pre_boost_resources({annotation_key("app"): '{"requests":{"cpu":1},"limits":null}'})["app"]
    assert (had.requests, had.limits, had.problem) == ({"cpu": 1000}, {}, "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cannot be read as a ResourceRequirements"),
        ("{", "cannot be read as a ResourceRequirements"),
        ("[]", "cannot be read as a ResourceRequirements"),
        ('{"requests":7}', "cannot be read as a ResourceRequirements"),
        ('{"requests":{"cpu":"lots"}}', 'requests.cpu: "lots" is not an amount'),
        ('{"limits":{"memory":"-1"}}', 'limits.memory: "-1" is not an amount'),
    ],
)
def test_a_spoiled_memory_is_a_problem_and_no_exception(text: str, problem: str) -> None:
    had = read_pre_boost_resources({annotation_key("app"): text})["app"]
    assert problem in had.problem
    assert (had.requests, had.limits) == ({}, {})


@given(st.text())
def test_no_text_at_all_is_an_exception(text: str) -> None:
    assert set(read_pre_boost_resources({annotation_key("app"): text})) == {"app"}


def test_a_pod_is_boosted_while_it_remembers_something() -> None:
    assert is_boosted({"vpaUpdates": "", annotation_key("app"): "?"})
    assert not is_boosted({"vpaUpdates": "", "vpaObservedContainers": "app"})


def test_before_its_boost_a_pod_had_what_it_remembers_and_the_class_it_has() -> None:
    began = start(pod(with_memory(container("500m", "500m"), "1Gi", "1Gi"), container(name="other")), DOUBLE)
    assert began.cpu() == (1000, 1000)
    shape = restore_pre_boost_shape(began.shape, read_pre_boost_resources(began.annotations))
    assert [container.requests["cpu"] for container in shape.containers] == [500, 500]
    assert shape.qos is QosClass.BURSTABLE


def test_a_spoiled_memory_leaves_the_container_as_it_is() -> None:
    began = start(pod(), DOUBLE)
    assert restore_pre_boost_shape(began.shape, read_pre_boost_resources({annotation_key("app"): "?"})) == began.shape
