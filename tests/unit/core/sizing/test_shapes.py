"""What sizes depend on of a pod: containers and sidecars, what starts beside what, and the class of the pod."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.pods import Document, container, pod, read_shape
from support.oracles.pod_admission import aggregate, qos_class, with_defaults
from trellis.api.kube.pods import ResourceRequirements
from trellis.core.sizing import ContainerList, PodShape
from trellis.core.sizing.shapes import QosClass

SIDECAR: Document = {"restartPolicy": "Always"}


def test_ordinary_containers_come_first_then_sidecars_and_plain_init_containers_are_not_sized() -> None:
    shape = read_shape(
        pod(container("a"), container("b"), initContainers=[container("setup"), container("mesh", **SIDECAR)])
    )
    assert [(container.name, container.place, container.index) for container in shape.containers] == [
        ("a", ContainerList.CONTAINERS, 0),
        ("b", ContainerList.CONTAINERS, 1),
        ("mesh", ContainerList.INIT, 1),
    ]
    assert [init.name for init in shape.init_containers] == ["setup"]


def test_amounts_are_millicores_and_bytes_and_a_limit_is_also_the_request() -> None:
    [shape] = read_shape(pod(container(requests={"memory": "1Gi"}, limits={"cpu": "0.5", "memory": "2Gi"}))).containers
    assert shape.requests == {"cpu": 500, "memory": 2**30}
    assert shape.limits == {"cpu": 500, "memory": 2**31}
    assert shape.written == ResourceRequirements(requests={"memory": "1Gi"}, limits={"cpu": "0.5", "memory": "2Gi"})


def test_a_resize_policy_says_on_which_resources_a_container_restarts() -> None:
    policy = [
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
    ]
    [shape] = read_shape(pod(container(resizePolicy=policy))).containers
    assert shape.restarts_on == {"memory"}


def test_what_is_needed_while_starting_counts_the_sidecars_that_run_already() -> None:
    shape = read_shape(
        pod(
            container("app", {"cpu": "1"}),
            initContainers=[
                container("first", {"cpu": "3"}),
                container("mesh", {"cpu": "200m"}, **SIDECAR),
                container("second", {"cpu": "2900m", "memory": "1Gi"}),
            ],
        )
    )
    assert shape.init_peak == {"cpu": 3100, "memory": 2**30}


def test_amounts_in_force_take_the_place_of_the_specs_but_the_spec_is_remembered() -> None:
    shape = read_shape(pod(container("app", {"cpu": "1"}, {"cpu": "2"}), container("other", {"cpu": "3"})))
    updated = shape.with_resources({"app": ResourceRequirements(requests={"cpu": "250m"}, limits={"cpu": "500m"})})
    app, other = updated.containers
    assert (app.requests, app.limits) == ({"cpu": 250}, {"cpu": 500})
    assert (app.in_spec.requests, app.in_spec.limits) == ({"cpu": 1000}, {"cpu": 2000})
    assert app.written == shape.containers[0].written
    assert other == shape.containers[1]
    again = updated.with_resources({"app": ResourceRequirements(requests={"cpu": "100m"})}).containers[0]
    assert again.in_spec.requests == {"cpu": 1000}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container()], QosClass.BEST_EFFORT),
        ([container(requests={"cpu": "0"})], QosClass.BEST_EFFORT),
        ([container(requests={"ephemeral-storage": "1Gi"})], QosClass.BEST_EFFORT),
        ([container(limits={"cpu": "1", "memory": "1Gi"})], QosClass.GUARANTEED),
        ([container(requests={"cpu": "1000m"}, limits={"cpu": "1", "memory": "1Gi"})], QosClass.GUARANTEED),
        ([container(requests={"cpu": "1"})], QosClass.BURSTABLE),
        ([container(limits={"cpu": "1"})], QosClass.BURSTABLE),
        ([container("a", limits={"cpu": "1", "memory": "1Gi"}), container("b")], QosClass.BURSTABLE),
        ([container("a", limits={"cpu": "1"}), container("b", limits={"memory": "1Gi"})], QosClass.BURSTABLE),
    ],
)
def test_the_class_of_a_pod(containers: list[Document], expected: QosClass) -> None:
    assert read_shape(pod(*containers)).qos is expected


def test_an_init_container_without_limits_makes_a_pod_burstable() -> None:
    whole = container(limits={"cpu": "1", "memory": "1Gi"})
    assert read_shape(pod(whole, initContainers=[container("setup")])).qos is QosClass.BURSTABLE


def test_the_pods_own_resources_alone_decide_its_class() -> None:
    own = {"limits": {"cpu": "2", "memory": "2Gi"}}
    assert read_shape(pod(container(), resources=own)).qos is QosClass.GUARANTEED
    assert read_shape(pod(container(requests={"cpu": "1"}), resources=own)).qos is QosClass.BURSTABLE
    assert read_shape(pod(container(limits={"cpu": "1", "memory": "1Gi"}), resources={})).qos is QosClass.BEST_EFFORT


def test_a_pod_with_its_own_limits_has_requests_too_of_its_containers_or_else_of_those_limits() -> None:
    shape = read_shape(
        pod(
            container("app", {"cpu": "300m"}),
            initContainers=[container("setup", {"cpu": "700m"})],
            resources={"limits": {"memory": "1Gi"}},
        )
    )
    assert shape.pod_requests == {"cpu": 700, "memory": 2**30}
    assert read_shape(pod(container("app", {"cpu": "1"}), resources={"requests": {"cpu": "2"}})).pod_requests == {
        "cpu": 2000
    }


some_amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["0", "1", "2", "3"]))


@st.composite
def containers(draw: st.DrawFn, name: str) -> Document:
    limits = draw(some_amounts)
    # A request above its limit is refused, and there is no telling the class of what cannot be.
    requests = {key: text for key, text in draw(some_amounts).items() if text <= limits.get(key, text)}
    return container(name, requests, limits)


@st.composite
def pods(draw: st.DrawFn) -> Document:
    ordinary = [draw(containers(f"c{number}")) for number in range(draw(st.integers(1, 2)))]
    inits = [
        draw(containers(f"i{number}")) | draw(st.sampled_from([{}, SIDECAR]))
        for number in range(draw(st.integers(0, 3)))
    ]
    own: Any = draw(st.sampled_from([None, "own"])) and draw(containers("pod"))["resources"]
    return pod(*ordinary, initContainers=inits, **({} if own is None else {"resources": own}))


@given(pods())
def test_class_and_sums_are_those_of_the_api_server(document: Document) -> None:
    made = with_defaults(document)
    shape = read_shape(document)
    assert shape.qos == qos_class(made["spec"])
    assert read_shape(made).qos is shape.qos
    needs = {
        name: int(amount * (1000 if name == "cpu" else 1))
        for name, amount in aggregate(made["spec"], "requests").items()
    }
    totals = {
        name: max(
            sum(container.requests.get(name, 0) for container in shape.containers),
            shape.init_peak.get(name, 0),
        )
        for name in needs
    }
    assert totals == needs


def test_a_shape_made_by_hand_needs_no_more_than_containers() -> None:
    assert PodShape(()).qos is QosClass.BEST_EFFORT
