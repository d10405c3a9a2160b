"""Capping of recommendations: policies in columns, and all bounds of one pod."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import vpa
from support.oracles.recommendations import capped
from trellis.api.kinds.vpa import ContainerRecommendation, VerticalPodAutoscaler, VerticalPodAutoscalerStatus
from trellis.api.kube.pods import ResourceRequirements
from trellis.api.kube.policies import LimitRange
from trellis.api.resolve import EffectiveContainerPolicy, EffectiveVpa, resolve_vpa
from trellis.core.recommend.amounts import TARGET, format_cpu_column
from trellis.core.recommend.capping import (
    CappedResources,
    NamespaceLimits,
    PodContainer,
    RecommendedResources,
    cap_for_pod,
    compile_policy_bounds,
    read_limit_ranges,
    read_recommended_resources,
)
from trellis.core.recommend.capping.container import compute_proportional_limit
from trellis.core.recommend.capping.limit_ranges import ResourceRange
from trellis.core.recommend.capping.policy import lower_to_cluster_maximum, lower_to_max_allowed, raise_to_min_allowed
from trellis.core.recommend.state.tables import read_published_amounts

NO_LIMITS = NamespaceLimits()


def effective(*policies: dict[str, Any]) -> EffectiveVpa:
    document = vpa(resourcePolicy={"containerPolicies": list(policies)})
    return resolve_vpa(msgspec.convert(document, VerticalPodAutoscaler))


def meaning(**policy: Any) -> EffectiveContainerPolicy:
    return effective({"containerName": "app", **policy}).get_container("app")


def limit_range(*items: dict[str, Any]) -> LimitRange:
    return msgspec.convert({"spec": {"limits": list(items)}}, LimitRange)


def limits(*items: dict[str, Any]) -> NamespaceLimits:
    return read_limit_ranges([limit_range(*items)])


def container(name: str = "app", requests: dict[str, str] | None = None, **limit: str) -> PodContainer:
    return PodContainer.from_resources(name, ResourceRequirements(limits=limit, requests=requests or {}))


def advice(name: str = "app", cpu: int = 100, memory: int = 1000) -> RecommendedResources:
    return RecommendedResources(
        name,
        {"cpu": cpu, "memory": memory},
        {"cpu": cpu // 2, "memory": memory // 2},
        {"cpu": cpu * 2, "memory": memory * 2},
    )


def notes(result: CappedResources) -> list[str]:
    return [str(note) for note in result.notes]


# Policies in columns


def capped_column(
    values: list[float], meanings: list[EffectiveContainerPolicy], cluster: tuple[float, float]
) -> list[float]:
    caps = [compile_policy_bounds(item) for item in meanings]
    least, most = np.array([cap.least for cap in caps]).T, np.array([cap.most for cap in caps]).T
    amounts = np.array([[values, values]])
    raise_to_min_allowed(amounts, least)
    lower_to_max_allowed(amounts, most)
    lower_to_cluster_maximum(amounts, most, cluster)
    return [float(value) for value in amounts[0, 0]]


def test_the_cluster_maximum_applies_where_the_policy_sets_none() -> None:
    plain, tight, wide, lifted = (
        meaning(),
        meaning(minAllowed={"cpu": "300m"}, maxAllowed={"memory": "1Gi"}),
        meaning(maxAllowed={"cpu": "9"}),
        meaning(maxAllowed={"cpu": "0"}),
    )
    everyone = [plain, tight, wide, lifted]
    assert capped_column([100.0] * 4, everyone, (5000.0, 0.0)) == [100, 300, 100, 100]
    assert capped_column([20_000.0] * 4, everyone, (5000.0, 0.0)) == [5000, 5000, 9000, 20_000]
    assert capped_column([20_000.0] * 4, everyone, (0.0, 0.0)) == [20_000, 20_000, 9000, 20_000]


def test_where_the_minimum_is_above_the_maximum_the_maximum_wins() -> None:
    assert capped_column([5.0], [meaning(minAllowed={"cpu": "2"}, maxAllowed={"cpu": "1"})], (0, 0)) == [1000]


def test_nothing_stays_nothing() -> None:
    assert math.isnan(capped_column([math.nan], [meaning(minAllowed={"cpu": "2"})], (100, 0))[0])


def test_bounds_finer_than_a_unit_are_rounded_into_the_allowed_range() -> None:
    caps = compile_policy_bounds(meaning(minAllowed={"cpu": "0.5m", "memory": "0.5"}, maxAllowed={"cpu": "1.5m"}))
    assert caps.least == (1.0, 1.0)
    assert caps.most[0] == 1


def test_a_bound_beyond_all_machines_is_still_a_number_that_can_be_written() -> None:
    caps = compile_policy_bounds(meaning(minAllowed={"cpu": "99999999999999999999E", "memory": "9E"}))
    assert caps.least == (2.0**53, 2.0**53)
    stored = ContainerRecommendation(target={"cpu": "99999999999999999999E", "memory": "-1"})
    result = read_published_amounts([stored])[TARGET, :, 0]
    assert format_cpu_column(result[:1]) == ["9007199254740992m"]
    assert math.isnan(result[1])


def test_the_spelling_of_a_bound_is_stored_only_if_it_cannot_be_derived_from_its_number() -> None:
    caps = compile_policy_bounds(
        meaning(minAllowed={"memory": "1G", "cpu": "1"}, maxAllowed={"memory": "2Gi", "cpu": "2000m"})
    )
    assert caps.texts == {("memory", 1e9): "1G"}


bounds = st.one_of(st.none(), st.integers(0, 5000))


@given(st.lists(st.tuples(st.integers(0, 5000), bounds, bounds), min_size=1, max_size=8), st.integers(0, 5000))
def test_columns_are_capped_as_single_values_are(rows: list[tuple[int, int | None, int | None]], most: int) -> None:
    meanings = [
        meaning(
            minAllowed={} if low is None else {"cpu": f"{low}m"}, maxAllowed={} if high is None else {"cpu": f"{high}m"}
        )
        for _, low, high in rows
    ]
    result = capped_column([float(value) for value, _, _ in rows], meanings, (float(most), 0.0))
    assert result == [capped(value, low, high, most) for value, low, high in rows]


# LimitRanges


def test_of_several_limit_ranges_the_strictest_bounds_and_the_last_default_count() -> None:
    result = read_limit_ranges(
        [
            limit_range(
                {"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "100m"}, "default": {"cpu": "1"}},
                {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
            ),
            limit_range(
                {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "default": {"memory": "1Mi"}},
                {"type": "Pod", "max": {"cpu": "junk", "memory": "2Gi"}},
            ),
        ]
    )
    assert result.container == ResourceRange({"cpu": 100}, {"cpu": 2000, "memory": 2**30}, {"memory": 2**20})
    assert result.pod == ResourceRange({}, {"memory": 2**31}, {})


# One pod


def test_without_policies_and_limit_ranges_nothing_changes() -> None:
    (result,) = cap_for_pod([advice()], [container()], effective(), NO_LIMITS)
    assert result == CappedResources("app", advice().target, advice().lower, advice().upper)


def test_containers_are_in_the_order_of_the_pod_without_unknown_ones() -> None:
    result = cap_for_pod(
        [advice("gone"), advice("b"), advice("a")],
        [container("a"), container("new"), container("b")],
        effective(),
        NO_LIMITS,
    )
    assert [item.container for item in result] == ["a", "b"]


def test_a_container_limit_range_applies_through_the_proportion_of_limit_to_request() -> None:
    own = container(requests={"cpu": "100m"}, cpu="300m")
    (result,) = cap_for_pod(
        [advice(cpu=1000)], [own], effective(), limits({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "0"}})
    )
    assert result.target["cpu"] == 333  # its limit is 999m
    assert result.upper["cpu"] == 333
    assert notes(result) == ["cpu capped to fit Max in container LimitRange"]


def test_a_minimum_must_be_reached_by_the_request_itself() -> None:
    own = container(requests={"cpu": "100m"}, cpu="300m")
    (result,) = cap_for_pod([advice(cpu=10)], [own], effective(), limits({"type": "Container", "min": {"cpu": "50m"}}))
    assert result.target["cpu"] == 50
    assert notes(result) == ["cpu capped to fit Min in container LimitRange"]


def test_a_limit_below_the_request_in_proportion_still_reaches_the_minimum() -> None:
    """Rounding down, as upstream does, would leave the limit one short and the pod refused."""
    own = PodContainer("app", {"cpu": 300}, {"cpu": 700})
    (result,) = cap_for_pod(
        [advice(cpu=1)], [own], effective(), NamespaceLimits(container=ResourceRange({"cpu": 1000}, {"cpu": 1100}))
    )
    assert result.target["cpu"] == 471  # the maximum of 1100m in limits wins over the minimum of 1000m in requests
    own = PodContainer("app", {"cpu": 700}, {"cpu": 300})
    (result,) = cap_for_pod([advice(cpu=1)], [own], effective(), NamespaceLimits(container=ResourceRange({"cpu": 100})))
    assert result.target["cpu"] == 234
    assert compute_proportional_limit(234, 700, 300, 0) == 100


def test_a_container_without_limit_has_no_maximum_and_a_default_limit_counts() -> None:
    ranges = {"type": "Container", "max": {"cpu": "1"}}
    (free,) = cap_for_pod([advice(cpu=5000)], [container(requests={"cpu": "1"})], effective(), limits(ranges))
    assert free.target["cpu"] == 5000
    with_default = limits(ranges | {"default": {"cpu": "500m"}})
    (bound,) = cap_for_pod([advice(cpu=5000)], [container(requests={"cpu": "250m"})], effective(), with_default)
    assert bound.target["cpu"] == 500


def test_the_policy_beats_the_limit_range() -> None:
    own = container(requests={"cpu": "100m"}, cpu="100m")
    (result,) = cap_for_pod(
        [advice(cpu=5000)],
        [own],
        effective({"containerName": "app", "minAllowed": {"cpu": "3"}}),
        limits({"type": "Container", "max": {"cpu": "1"}}),
    )
    assert result.target["cpu"] == 3000
    assert notes(result) == ["cpu capped to fit Max in container LimitRange", "cpu capped to minAllowed"]


def test_requests_only_stays_within_the_limit_and_applies_ranges_to_requests() -> None:
    own = container(requests={"cpu": "100m"}, cpu="2")
    only = effective({"containerName": "*", "controlledValues": "RequestsOnly", "maxAllowed": {"cpu": "4"}})
    (result,) = cap_for_pod([advice(cpu=5000)], [own], only, NO_LIMITS)
    assert result.target["cpu"] == result.upper["cpu"] == 2000
    assert notes(result) == ["cpu capped to maxAllowed", "cpu capped to container limit"]
    (result,) = cap_for_pod([advice(cpu=1500)], [own], only, limits({"type": "Container", "max": {"cpu": "1600m"}}))
    assert result.target["cpu"] == 1500  # in proportion, upstream would cut it to 80m


def test_only_controlled_resources_of_sized_containers_are_advised() -> None:
    result = cap_for_pod(
        [advice("app"), advice("proxy")],
        [container("app"), container("proxy")],
        effective(
            {"containerName": "app", "controlledResources": ["memory"]}, {"containerName": "proxy", "mode": "Off"}
        ),
        NO_LIMITS,
    )
    assert [(item.container, item.target) for item in result] == [("app", {"memory": 1000})]


# LimitRanges for pods


def test_limits_of_a_pod_above_the_maximum_shrink_its_requests_in_proportion() -> None:
    pod = [container("a", {"cpu": "100m"}, cpu="200m"), container("b", {"cpu": "100m"}, cpu="100m")]
    result = cap_for_pod(
        [advice("a", cpu=300), advice("b", cpu=300)], pod, effective(), limits({"type": "Pod", "max": {"cpu": "450m"}})
    )
    assert [item.target["cpu"] for item in result] == [150, 150]  # limits 300m + 150m
    assert notes(result[0]) == ["cpu scaled to fit pod LimitRange"]


def test_requests_of_a_pod_below_the_minimum_grow_in_proportion() -> None:
    pod = [container("a"), container("b")]
    result = cap_for_pod(
        [advice("a", cpu=100), advice("b", cpu=200)], pod, effective(), limits({"type": "Pod", "min": {"cpu": "1"}})
    )
    assert [item.target["cpu"] for item in result] == [334, 667]


def test_containers_that_are_off_or_unknown_are_never_touched_but_counted() -> None:
    pod = [
        container("app", {"cpu": "100m"}, cpu="100m"),
        container("off", {"cpu": "200m"}, cpu="200m"),
        container("bare"),
    ]
    result = cap_for_pod(
        [advice("app", cpu=900), advice("off", cpu=900)],
        pod,
        effective({"containerName": "off", "mode": "Off"}),
        limits({"type": "Pod", "max": {"cpu": "500m"}}),
    )
    assert [(item.container, item.target["cpu"], item.upper["cpu"]) for item in result] == [("app", 300, 300)]


def test_a_container_without_a_recommendation_is_scaled_with_the_others_so_that_the_pod_is_admitted() -> None:
    pod = [
        container("a", {"cpu": "100m", "memory": "100Mi"}, cpu="100m", memory="100Mi"),
        container("b", {"cpu": "400m", "memory": "600Mi"}, cpu="400m", memory="600Mi"),
    ]
    result = cap_for_pod(
        [advice("a", cpu=400, memory=600 << 20)],
        pod,
        effective(),
        limits({"type": "Pod", "max": {"cpu": "400m", "memory": "1Gi"}}),
    )
    assert [(item.container, item.target) for item in result] == [
        ("a", {"cpu": 200, "memory": 512 << 20}),
        ("b", {"cpu": 200, "memory": 512 << 20}),
    ]
    # It has no bounds of its own, so that it is never the reason to disturb a pod.
    assert result[1].lower == result[1].upper == {}


def test_a_container_without_a_recommendation_stays_out_where_the_pod_fits() -> None:
    pod = [container("a", {"cpu": "100m"}, cpu="100m"), container("b", {"cpu": "400m"}, cpu="400m")]
    result = cap_for_pod([advice("a", cpu=200)], pod, effective(), limits({"type": "Pod", "max": {"cpu": "1"}}))
    assert [(item.container, item.target["cpu"]) for item in result] == [("a", 200)]


def test_a_container_without_a_limit_shares_the_cut_of_the_pod() -> None:
    pod = [container("a", {"cpu": "100m"}, cpu="100m"), container("b", {"cpu": "100m"})]
    result = cap_for_pod(
        [advice("a", cpu=800), advice("b", cpu=300)], pod, effective(), limits({"type": "Pod", "max": {"cpu": "400m"}})
    )
    assert [item.target["cpu"] for item in result] == [400, 150]


def test_a_maximum_that_others_exceed_alone_changes_nothing() -> None:
    pod = [container("app", {"cpu": "100m"}, cpu="100m"), container("off", {"cpu": "2"}, cpu="2")]
    result = cap_for_pod(
        [advice("app", cpu=900)],
        pod,
        effective({"containerName": "off", "mode": "Off"}),
        limits({"type": "Pod", "max": {"cpu": "1"}}),
    )
    assert result[0].target["cpu"] == 900


pods = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 4000), st.integers(0, 4000), st.booleans()), min_size=1, max_size=4
)


@given(pods, st.integers(0, 9000), st.integers(0, 9000))
def test_a_satisfiable_pod_limit_range_is_satisfied(
    pod: list[tuple[int, int, int, bool]], least: int, most: int
) -> None:
    """Each container: request, limit, recommended, and whether it is sized."""
    containers = [
        PodContainer(f"c{at}", {"cpu": request} if request else {}, {"cpu": limit} if limit else {})
        for at, (request, limit, _, _) in enumerate(pod)
    ]
    given = [RecommendedResources(f"c{at}", {"cpu": recommended}) for at, (_, _, recommended, _) in enumerate(pod)]
    off = [{"containerName": f"c{at}", "mode": "Off"} for at, (_, _, _, sized) in enumerate(pod) if not sized]
    result = {
        item.container: item.target["cpu"]
        for item in cap_for_pod(
            given, containers, effective(*off), NamespaceLimits(pod=ResourceRange({"cpu": least}, {"cpu": most}))
        )
    }
    assert result.keys() == {f"c{at}" for at, (_, _, _, sized) in enumerate(pod) if sized}
    requests = sum(result.get(f"c{at}", request) for at, (request, _, _, _) in enumerate(pod))
    if any(result.values()):
        assert requests >= least or any(
            result[f"c{at}"] < recommended for at, (_, _, recommended, sized) in enumerate(pod) if sized
        )
    limit_sum = fixed = Fraction(0)
    for at, (request, limit, _, sized) in enumerate(pod):
        if sized:
            limit_sum += compute_proportional_limit(result[f"c{at}"], request, limit, 0) or 0
        else:
            fixed += limit
    grown = any(result[f"c{at}"] > recommended for at, (_, _, recommended, sized) in enumerate(pod) if sized)
    assert grown or not most or fixed + limit_sum <= most or fixed >= most


def test_a_status_is_read_as_advice() -> None:
    status = msgspec.convert(
        {
            "recommendation": {
                "containerRecommendations": [
                    {"containerName": "app", "target": {"cpu": "1168m", "memory": "250Mi"}, "lowerBound": {"cpu": 1}}
                ]
            }
        },
        VerticalPodAutoscalerStatus,
    )
    assert read_recommended_resources(status) == (
        RecommendedResources("app", {"cpu": 1168, "memory": 262144000}, {"cpu": 1000}, {}),
    )
    assert read_recommended_resources(None) == read_recommended_resources(VerticalPodAutoscalerStatus()) == ()
