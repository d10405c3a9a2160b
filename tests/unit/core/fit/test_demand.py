"""The demand of one pod: the scheduler's effective requests, and the allocation of a running pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trellis.api.kube.pods import Pod, PodSpec
from trellis.base.errors import InvalidQuantity
from trellis.core.fit import Demand, read_running_demand, read_running_demand_or_empty
from trellis.core.fit.demand import ALL_ADDRESSES

Json = dict[str, Any]


def container(name: str, cpu: str = "", memory: str = "", **fields: Any) -> Json:
    requests = {key: text for key, text in (("cpu", cpu), ("memory", memory)) if text}
    return {"name": name, "resources": {"requests": requests}} | fields


def demand(*containers: Json, instead: Any = None, **spec: Any) -> Demand:
    return Demand.of(msgspec.convert({"containers": list(containers)} | spec, PodSpec), instead or {})


def requests_of(*containers: Json, **spec: Any) -> dict[str, int]:
    result = dict(demand(*containers, **spec).requests)
    assert result.pop("pods") == 1
    return result


def test_requests_are_the_sum_of_containers_or_the_largest_init_container() -> None:
    running = (container("a", "2", "1Gi"), container("b", "1", "1Gi"))
    starting = [container("c", "2", "1Gi"), container("d", "2", "3Gi")]
    assert requests_of(*running, initContainers=starting) == {"cpu": 3000, "memory": 3 * 2**30}


def test_a_sidecar_runs_beside_the_containers_and_beside_the_init_containers_after_it() -> None:
    sidecar = container("mesh", "500m", restartPolicy="Always")
    app, setup = container("app", "1"), container("setup", "1200m")
    assert requests_of(app, initContainers=[sidecar]) == {"cpu": 1500}
    assert requests_of(app, initContainers=[setup, sidecar]) == {"cpu": 1500}
    assert requests_of(app, initContainers=[sidecar, setup]) == {"cpu": 1700}


def test_pod_level_requests_replace_those_of_containers() -> None:
    app = container("app", "1", "1Gi")
    pod_level = {"requests": {"cpu": "3", "example.com/gpu": "9"}}
    assert requests_of(app, resources=pod_level, overhead={"cpu": "250m", "memory": "1Mi"}) == {
        "cpu": 3250,
        "memory": 2**30 + 2**20,
    }


def test_a_pod_level_limit_is_the_request_where_no_container_requests() -> None:
    pod_level = {"limits": {"cpu": "3", "memory": "2Gi", "hugepages-2Mi": "4Mi"}}
    assert requests_of(container("app", memory="1Gi"), resources=pod_level) == {
        "cpu": 3000,
        "memory": 2**30,
        "hugepages-2Mi": 2**22,
    }


def test_a_limit_without_a_request_is_the_request() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert requests_of({"name": "app", "resources": resources}) == {"cpu": 1000, "memory": 2**30}


def test_fractions_are_rounded_up_after_adding() -> None:
    third = container("a", "0.0004", "0.4")
    assert requests_of(third, third | {"name": "b"}) == {"cpu": 1, "memory": 1}


def test_a_pod_without_requests_needs_only_a_pod_slot() -> None:
    assert requests_of(container("app", "0")) == {}


def test_overrides_replace_the_requests_of_the_spec() -> None:
    raised = {"app": {"cpu": 4000}, "mesh": {"cpu": 1000, "memory": 5}}
    sidecar = container("mesh", "500m", restartPolicy="Always")
    result = demand(container("app", "1", "10"), instead=raised, initContainers=[sidecar])
    assert result.requests == {"cpu": 5000, "memory": 15, "pods": 1}


def test_an_unreadable_amount_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidQuantity, match=r"spec\.initContainers\[0\]\.resources\.requests\[cpu\]"):
        demand(container("app"), initContainers=[container("setup", "lots")])
    with pytest.raises(InvalidQuantity, match=r"spec\.overhead\[memory\]"):
        demand(container("app"), overhead={"memory": "1Kg"})
    with pytest.raises(InvalidQuantity, match=r"spec\.resources\.limits\[cpu\]"):
        demand(container("app"), resources={"limits": {"cpu": "x"}})
    with pytest.raises(
        InvalidQuantity, match=r"spec\.containers\[1\]\.resources\.requests\[cpu\]: must not be negative"
    ):
        demand(container("app", "2"), container("mesh", "-500m"))


def test_pods_of_one_template_have_equal_demands_whatever_the_order_of_their_maps() -> None:
    def build(is_reversed: bool) -> Demand:
        pairs = [("zone", "a"), ("disk", "fast")]
        requests = [("cpu", "1"), ("memory", "1Gi")]
        app = {"name": "app", "resources": {"requests": dict(requests[::-1] if is_reversed else requests)}}
        waits = {
            "key": "node.kubernetes.io/not-ready",
            "effect": "NoExecute",
            "tolerationSeconds": 60 * (1 + is_reversed),
        }
        return demand(app, nodeSelector=dict(pairs[::-1] if is_reversed else pairs), tolerations=[waits])

    assert build(is_reversed=True) == build(is_reversed=False)
    assert len({build(is_reversed=True), build(is_reversed=False)}) == 1


def test_host_ports_are_those_of_containers_that_keep_running() -> None:
    starting = [
        container("setup", ports=[{"hostPort": 1}]),
        container("mesh", restartPolicy="Always", ports=[{"hostPort": 2}]),
    ]
    result = demand(container("app", ports=[{"containerPort": 80, "hostPort": 8080}]), initContainers=starting)
    assert [port.port for port in result.ports] == [2, 8080]
    host = demand(container("app", ports=[{"containerPort": 80, "protocol": ""}]), hostNetwork=True)
    assert [tuple(port) for port in host.ports] == [("TCP", 80, ALL_ADDRESSES)]


# What a running pod holds


def running(status: Json, **spec: Any) -> dict[str, int]:
    pod = {"spec": {"containers": [container("app", "2", "1Gi")]} | spec, "status": status}
    result = dict(read_running_demand(msgspec.convert(pod, Pod)).requests)
    assert result.pop("pods") == 1
    return result


def test_a_pod_with_an_unreadable_amount_counts_as_a_pod_only() -> None:
    document = {"spec": {"containers": [container("app", "much", "1Gi")]}}
    assert dict(read_running_demand_or_empty(msgspec.convert(document, Pod)).amounts) == {"pods": 1}
    document = {"spec": {"containers": [container("app", "2", "1Gi")]}}
    assert read_running_demand_or_empty(msgspec.convert(document, Pod)) == read_running_demand(
        msgspec.convert(document, Pod)
    )


def resized(cpu: str, allocated: str, **fields: Any) -> Json:
    return {
        "containerStatuses": [
            {
                "name": "app",
                "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
                "allocatedResources": {"cpu": allocated, "memory": "1Gi"},
            }
        ],
        **fields,
    }


def test_during_a_resize_the_largest_amount_counts() -> None:
    assert running({}) == {"cpu": 2000, "memory": 2**30}
    assert running(resized("1", "1")) == {"cpu": 2000, "memory": 2**30}
    assert running(resized("4", "1")) == {"cpu": 4000, "memory": 2**30}
    assert running(resized("1", "3")) == {"cpu": 3000, "memory": 2**30}


def test_an_infeasible_resize_does_not_count() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    assert running(resized("1", "1500m", conditions=[pending]))["cpu"] == 1500
    assert running(resized("1", "1500m", conditions=[pending | {"reason": "Deferred"}]))["cpu"] == 2000


def test_the_largest_amount_counts_for_resized_sidecars_and_pod_level_resizes() -> None:
    reported = {"name": "mesh", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1"}}
    sidecar = container("mesh", "1", restartPolicy="Always")
    assert running({"initContainerStatuses": [reported]}, initContainers=[sidecar])["cpu"] == 5000
    status = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "5"}}
    assert running(status, resources={"requests": {"cpu": "4"}}) == {"cpu": 6000, "memory": 2**30}
