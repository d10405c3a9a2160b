"""How high a container is raised at creation: the worked numbers of the requirements, and what must hold for any."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import vpa
from support.worlds.boosts import ON, Life, container, effective, limit_range, pod, start, with_memory
from trellis.api.resolve import EffectiveVpa
from trellis.core.boost.annotation import read_pre_boost_resources, restore_pre_boost_shape
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.limit_ranges import ResourceRange

HALF = pod(container("500m"))
HALF_OF_ONE = pod(container("500m", "1"))


def factor(number: int, **spec: Any) -> EffectiveVpa:
    return effective(vpa(startupBoost={"cpu": {"type": "Factor", "factor": number}}, **spec))


def quantity(text: str, **spec: Any) -> EffectiveVpa:
    return effective(vpa(startupBoost={"cpu": {"type": "Quantity", "quantity": text}}, **spec))


def app_policy(**fields: Any) -> dict[str, Any]:
    return {"containerPolicies": [{"containerName": "app", **fields}]}


OFF = {"updateMode": "Off"}
REQUESTS_ONLY = app_policy(controlledValues="RequestsOnly")


# What the boost is made from


@pytest.mark.req("SB-15", "SB-17")
def test_a_factor_multiplies_the_recommendation() -> None:
    assert start(HALF, factor(2), {"app": "800m"}).cpu() == (1600, None)


@pytest.mark.req("SB-16")
@pytest.mark.parametrize(("text", "boosted_to"), [("500m", 1000), ("1", 1500)])
def test_a_quantity_is_added(text: str, boosted_to: int) -> None:
    assert start(HALF, quantity(text)).cpu() == (boosted_to, None)


@pytest.mark.req("SB-18")
def test_without_a_recommendation_the_containers_own_request_is_raised() -> None:
    assert start(HALF, factor(2)).cpu() == (1000, None)


@pytest.mark.req("SB-18")
def test_without_a_request_either_nothing_is_raised_and_this_is_reported() -> None:
    life = start(pod(container(None)), factor(2))
    assert life.cpu() == (None, None)
    assert life.annotations == {}
    assert life.notes() == ["app: cpu not boosted since there is no request to boost"]


def test_a_limit_without_a_request_counts_as_both() -> None:
    assert start(pod(container(None, "500m")), factor(2)).cpu() == (1000, 1000)


def test_a_recommendation_is_raised_where_the_container_asks_for_nothing() -> None:
    assert start(pod(container(None)), factor(2), {"app": "300m"}).cpu() == (600, None)


@pytest.mark.req("SB-19")
@pytest.mark.parametrize(
    "spec",
    [
        {"updatePolicy": OFF},
        {"resourcePolicy": app_policy(mode="Off")},
        {"resourcePolicy": app_policy(controlledResources=["memory"])},
    ],
    ids=["mode Off", "container mode Off", "CPU not controlled"],
)
def test_where_the_recommendation_is_not_applied_the_own_request_is_raised(spec: dict[str, Any]) -> None:
    assert start(HALF, factor(3, **spec), {"app": "800m"}).cpu() == (1500, None)


@pytest.mark.req("SB-01")
@pytest.mark.parametrize("mode", ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_pod_that_is_created_is_boosted_in_every_mode(mode: str) -> None:
    life = start(HALF_OF_ONE, factor(2, updatePolicy={"updateMode": mode}))
    assert life.cpu() == (1000, 2000)
    assert read_pre_boost_resources(life.annotations)["app"].requests == {"cpu": 500}


# Which containers


@pytest.mark.req("SB-05")
def test_the_pods_policy_is_for_every_container_native_sidecars_included() -> None:
    two = pod(
        container("500m"),
        container("100m", name="proxy"),
        initContainers=[container("50m", name="logger", restartPolicy="Always"), container("1", name="setup")],
    )
    life = start(two, factor(3))
    assert [life.cpu(name)[0] for name in ("app", "proxy", "logger", "setup")] == [1500, 300, 150, 1000]


@pytest.mark.req("SB-06", "SB-26")
def test_a_containers_policy_replaces_the_pods_and_is_for_that_container_alone() -> None:
    own = app_policy(startupBoost={"cpu": {"type": "Quantity", "quantity": "100m"}})
    life = start(pod(container(), container(name="proxy")), factor(3, resourcePolicy=own))
    assert (life.cpu("app"), life.cpu("proxy")) == ((600, None), (1500, None))
    alone = start(pod(container(), container(name="proxy")), effective(vpa(resourcePolicy=own)))
    assert (alone.cpu("app"), alone.cpu("proxy")) == ((600, None), (500, None))


@pytest.mark.req("SB-07", "SB-24")
@pytest.mark.parametrize("own", [{}, {"cpu": {"type": "Factor", "factor": 1}}], ids=["without cpu", "factor 1"])
def test_a_container_can_be_left_out_and_is_not_marked_as_boosted(own: dict[str, Any]) -> None:
    life = start(
        pod(container(), container(name="proxy")),
        factor(2, resourcePolicy=app_policy(startupBoost=own)),
        {"app": "700m", "proxy": "700m"},
    )
    assert (life.cpu("app"), life.cpu("proxy")) == ((700, None), (1400, None))
    assert list(life.annotations) == ["vpaCpuStartupBoost/proxy"]
    assert life.notes() == []


def test_a_container_that_restarts_when_its_cpu_is_resized_is_not_boosted() -> None:
    restarts = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    life = start(pod(container(resizePolicy=restarts), container(name="proxy")), factor(2))
    assert (life.cpu("app"), life.cpu("proxy")) == ((500, None), (1000, None))
    assert life.notes() == ["app: cpu not boosted since a resize restarts the container"]


def test_a_container_that_restarts_when_its_memory_is_resized_is_boosted() -> None:
    restarts = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    assert start(pod(container(resizePolicy=restarts)), factor(2)).cpu() == (1000, None)


@pytest.mark.parametrize(("os", "cpu"), [("windows", 500), ("linux", 1000)])
def test_a_windows_pod_cannot_be_resized_and_is_not_boosted(os: str, cpu: int) -> None:
    life = start(pod(container("500m"), os={"name": os}), factor(2))
    assert life.cpu() == (cpu, None)
    assert bool(life.notes()) == (os == "windows")


@pytest.mark.req("SB-45")
def test_nothing_is_boosted_where_the_gate_is_off_or_pods_cannot_be_resized() -> None:
    life = start(HALF, factor(2), {"app": "800m"}, settings=BoostSettings(enabled=False))
    assert (life.cpu(), life.annotations, life.notes()) == ((800, None), {}, [])


# Limits


@pytest.mark.req("SB-20")
def test_the_limit_rises_by_the_same_rule() -> None:
    assert start(HALF_OF_ONE, factor(2)).cpu() == (1000, 2000)
    assert start(HALF_OF_ONE, quantity("500m")).cpu() == (1000, 1500)
    assert start(HALF, factor(2)).cpu() == (1000, None)


@pytest.mark.req("SB-17", "SB-20")
def test_the_limit_is_raised_from_where_the_recommendation_puts_it() -> None:
    assert start(HALF_OF_ONE, factor(2), {"app": "800m"}).cpu() == (1600, 3200)


@pytest.mark.req("SB-21")
def test_a_limit_that_is_not_controlled_stays_and_the_request_stays_below_it() -> None:
    life = start(HALF_OF_ONE, factor(3, resourcePolicy=REQUESTS_ONLY))
    assert life.cpu() == (999, 1000)
    assert life.notes() == ["app: cpu boost kept below container limit"]
    assert start(HALF_OF_ONE, quantity("100m", resourcePolicy=REQUESTS_ONLY)).cpu() == (600, 1000)


@pytest.mark.req("SB-21", "SB-22")
def test_a_request_that_is_at_its_limit_is_not_lowered_below_it() -> None:
    life = start(pod(container("1", "1")), factor(3, resourcePolicy=REQUESTS_ONLY))
    assert (life.cpu(), life.annotations) == ((1000, 1000), {})
    assert life.notes()[-1] == "app: cpu not boosted since caps leave nothing of the boost"


# What bounds a boost


@pytest.mark.req("SB-23")
def test_the_flag_caps_the_request_and_the_limit_with_it() -> None:
    capped = BoostSettings(max_cpu=2000)
    life = start(HALF_OF_ONE, factor(10), settings=capped)
    assert life.cpu() == (2000, 4000)
    assert life.notes() == ["app: cpu boost capped to --max-allowed-cpu-boost"]
    assert start(HALF_OF_ONE, quantity("10"), settings=capped).cpu() == (2000, 2500)
    for unset in (ON, BoostSettings(max_cpu=0)):
        assert start(HALF_OF_ONE, factor(10), settings=unset).cpu() == (5000, 10000)


@pytest.mark.req("SB-22", "SB-23")
def test_a_cap_below_the_base_lowers_nothing() -> None:
    life = start(HALF, factor(2), settings=BoostSettings(max_cpu=250))
    assert (life.cpu(), life.annotations) == ((500, None), {})
    assert life.notes() == [
        "app: cpu boost capped to --max-allowed-cpu-boost",
        "app: cpu not boosted since caps leave nothing of the boost",
    ]


@pytest.mark.req("SB-25")
def test_max_allowed_bounds_the_recommendation_and_not_the_boost() -> None:
    bounded = app_policy(maxAllowed={"cpu": "600m"})
    assert start(HALF, factor(2, resourcePolicy=bounded), {"app": "800m"}).cpu() == (1200, None)
    memory_only = app_policy(controlledResources=["memory"])
    assert start(HALF, factor(2, resourcePolicy=memory_only), {"app": "800m"}).cpu() == (1000, None)


def test_a_limit_range_for_containers_cuts_request_and_limit() -> None:
    most = limit_range("Container", max={"cpu": "1500m"})
    life = start(HALF_OF_ONE, factor(2), limits=most)
    assert life.cpu() == (750, 1500)
    assert life.notes() == ["app: cpu boost capped to fit Max in LimitRange"]
    assert start(HALF_OF_ONE, quantity("2"), limits=most).cpu() == (1000, 1500)


def test_a_limit_range_for_pods_is_shared_in_the_ratio_of_the_boosts() -> None:
    two = pod(container("500m", "500m"), container("100m", "100m", name="proxy"))
    life = start(two, factor(3), limits=limit_range("Pod", max={"cpu": "1200m"}))
    assert (life.cpu("app"), life.cpu("proxy")) == ((1000, 1000), (200, 200))


def test_a_limit_that_stays_has_no_part_in_a_limit_range_for_pods() -> None:
    two = pod(container("500m", "1"), container("100m", "100m", name="proxy"))
    one_stays = factor(3, resourcePolicy=REQUESTS_ONLY)
    life = start(two, one_stays, limits=limit_range("Pod", max={"cpu": "1200m"}))
    assert (life.cpu("app"), life.cpu("proxy")) == ((999, 1000), (200, 200))


def test_a_pods_own_resources_bound_its_containers() -> None:
    own = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    life = start(pod(container("500m", "1500m"), container("200m", name="proxy"), resources=own), factor(3))
    # Its limit lets app have 666m; 300m are left for the 166m and 400m that both are raised by.
    assert (life.cpu("app"), life.cpu("proxy")) == ((587, 1761), (412, None))
    assert set(life.notes()) == {
        "app: cpu boost capped to fit pod resources",
        "proxy: cpu boost capped to fit pod resources",
    }


def test_where_it_must_fit_the_boost_is_cut_to_what_some_node_has() -> None:
    two = pod(container("500m", "1"), container("500m", name="proxy"))
    life = start(two, factor(4), ceiling=CpuCeiling(2000, binding=True))
    assert (life.cpu("app"), life.cpu("proxy")) == ((1000, 2000), (1000, None))
    assert "app: cpu boost capped to fit a node" in life.notes()


def test_where_it_need_not_fit_the_boost_only_warns() -> None:
    life = start(HALF, factor(4), ceiling=CpuCeiling(1500, binding=False))
    assert life.cpu() == (2000, None)
    assert life.notes() == ["app: cpu boost makes the pod too large for every node"]
    assert life.boost.containers[0].notes[0].reason.severity == "warning"
    assert start(HALF, factor(3), ceiling=CpuCeiling(1500, binding=False)).notes() == []


def test_a_pod_that_fits_nowhere_without_a_boost_either_is_not_the_boosts_doing() -> None:
    assert start(HALF, factor(4), ceiling=CpuCeiling(400, binding=False)).notes() == []
    life = start(HALF, factor(4), ceiling=CpuCeiling(400, binding=True))
    assert (life.cpu(), life.annotations) == ((500, None), {})


def test_a_sidecar_is_cut_to_what_is_left_beside_an_init_container() -> None:
    starts_first = pod(
        container("100m"),
        initContainers=[container("200m", name="logger", restartPolicy="Always"), container("1", name="setup")],
    )
    life = start(starts_first, factor(10), ceiling=CpuCeiling(1500, binding=True))
    assert life.cpu("logger") == (500, None)
    assert life.cpu("app")[0] is not None
    assert life.cpu("app") > (100, None)


# A pod seen twice


def test_a_pod_that_is_reviewed_again_is_not_boosted_again() -> None:
    once = start(HALF_OF_ONE, quantity("500m"))
    shape = restore_pre_boost_shape(once.shape, read_pre_boost_resources(once.annotations))
    assert (shape.containers[0].requests["cpu"], shape.containers[0].limits["cpu"]) == (500, 1000)


# For any pod and policy

MILLI = st.integers(1, 4000)
BOOSTS = st.one_of(
    st.builds(lambda number: {"type": "Factor", "factor": number}, st.integers(1, 12)),
    st.builds(lambda milli: {"type": "Quantity", "quantity": f"{milli}m"}, st.integers(0, 6000)),
)
MAYBE = st.none() | MILLI


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    request, above = draw(MAYBE), draw(st.none() | st.integers(0, 2000))
    limit = None if above is None else (request or 1) + above
    document = container(None if request is None else f"{request}m", None if limit is None else f"{limit}m", name=name)
    if draw(st.booleans()):
        with_memory(document, "100Mi", draw(st.sampled_from([None, "100Mi", "200Mi"])))
    return document


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    names = ["app", "proxy", "logger"][: draw(st.integers(1, 3))]
    values = draw(st.sampled_from(["RequestsAndLimits", "RequestsOnly"]))
    fields = {"controlledValues": values, "controlledResources": draw(st.sampled_from([["cpu", "memory"], ["memory"]]))}
    targets = {name: {"cpu": f"{draw(MILLI)}m", "memory": "150Mi"} for name in names if draw(st.booleans())}
    return {
        "life": pod(*[draw(containers(name)) for name in names]),
        "spec": {
            "updatePolicy": {"updateMode": draw(st.sampled_from(["Off", "Recreate"]))},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", **fields}]},
        },
        "boost": draw(BOOSTS),
        "targets": targets,
        "max_cpu": draw(MAYBE),
        "container_max": draw(MAYBE),
        "pod_max": draw(MAYBE),
        "ceiling": draw(MAYBE),
    }


def outcome(case: dict[str, Any], *, with_boost: bool) -> Life:
    spec = case["spec"] | ({"startupBoost": {"cpu": case["boost"]}} if with_boost else {})
    return start(
        case["life"],
        effective(vpa(**spec)),
        case["targets"],
        limits=NamespaceLimits(_range(case["container_max"]), _range(case["pod_max"])),
        settings=BoostSettings(max_cpu=case["max_cpu"]),
        ceiling=None if case["ceiling"] is None else CpuCeiling(case["ceiling"], binding=True),
    )


def _range(most: int | None) -> ResourceRange:
    return ResourceRange() if most is None else ResourceRange(most={"cpu": most})


def names(life: Life) -> list[str]:
    return [container["name"] for container in life.spec["containers"]]


def total(life: Life, which: int) -> int:
    return sum(life.cpu(name)[which] or 0 for name in names(life))


@pytest.mark.req("SB-22")
@given(cases())
def test_a_boost_lowers_nothing_and_marks_just_what_it_raises(case: dict[str, Any]) -> None:
    plain, raised = outcome(case, with_boost=False), outcome(case, with_boost=True)
    for name in names(plain):
        (request, limit), (boosted_request, boosted_limit) = plain.cpu(name), raised.cpu(name)
        assert (limit is None) == (boosted_limit is None)
        assert (boosted_limit or 0) >= (limit or 0)
        if raised.boost.find(name) is None:
            assert raised.cpu(name) == plain.cpu(name)
        else:
            assert boosted_request is not None
            assert boosted_request > (request or 0)
            assert boosted_limit is None or boosted_request <= boosted_limit
    assert set(raised.annotations) == {
        f"vpaCpuStartupBoost/{boosted.container.name}" for boosted in raised.boost.containers
    }


ONLY_REQUESTS_OF_CPU = {"controlledValues": "RequestsOnly", "controlledResources": ["cpu"]}


def almost_guaranteed(case: dict[str, Any]) -> dict[str, Any]:
    """The same with memory that is limited to its request and limits of CPU that stay: the request of CPU decides."""
    for container_spec in case["life"].spec["containers"]:
        container_spec["resources"]["limits"].setdefault("cpu", "5")
        with_memory(container_spec, "100Mi", "100Mi")
    spec = case["spec"] | {"resourcePolicy": {"containerPolicies": [{"containerName": "*", **ONLY_REQUESTS_OF_CPU}]}}
    return case | dict.fromkeys(("max_cpu", "container_max", "pod_max", "ceiling")) | {"spec": spec}


@pytest.mark.req("SB-21")
@given(st.one_of(cases(), cases().map(almost_guaranteed)))
def test_a_boost_never_changes_the_qos_class(case: dict[str, Any]) -> None:
    assert outcome(case, with_boost=True).shape.qos is outcome(case, with_boost=False).shape.qos


@given(cases())
def test_a_boost_never_keeps_a_pod_from_being_admitted_or_placed(case: dict[str, Any]) -> None:
    plain, raised = outcome(case, with_boost=False), outcome(case, with_boost=True)
    if case["max_cpu"] is not None:
        assert all(raised_container.request <= case["max_cpu"] for raised_container in raised.boost.containers)
    for boosted in raised.boost.containers:
        if case["container_max"] is not None:
            assert boosted.request <= case["container_max"]
            assert (boosted.limit or 0) <= max(case["container_max"], plain.cpu(boosted.container.name)[1] or 0)
    for most, which in ((case["pod_max"], 0), (case["pod_max"], 1), (case["ceiling"], 0)):
        if most is not None:
            assert total(raised, which) <= max(most, total(plain, which))


@given(cases())
def test_the_annotation_holds_the_resources_before_admission(case: dict[str, Any]) -> None:
    raised = outcome(case, with_boost=True)
    came = {container.name: container for container in case["life"].shape.containers}
    for name, had in read_pre_boost_resources(raised.annotations).items():
        assert (had.requests, had.limits, had.problem) == (came[name].requests, came[name].limits, "")


def test_an_absurd_factor_stays_countable() -> None:
    life = start(pod(container("9223372036854775807m", "9223372036854775807m")), factor(2147483647))
    assert life.annotations == {}
