"""Sizes of pods: what a recommendation comes to for the containers of one pod, and what is said about it."""

from __future__ import annotations

from typing import Any

from support.builders.pods import Document, container, limit_ranges, pod, policies, read_shape
from trellis.api.kube.pods import ResourceRequirements
from trellis.core.recommend.capping import NamespaceLimits, RecommendedResources
from trellis.core.sizing import ContainerSize, PodSize, size_pod

Mi, Gi = 2**20, 2**30
NO_LIMITS = NamespaceLimits()
SIDECAR: Document = {"restartPolicy": "Always"}


def size(
    document: Document,
    targets: dict[str, dict[str, int]],
    *policy: Document,
    limits: NamespaceLimits = NO_LIMITS,
    running: bool = False,
) -> PodSize:
    advice = [RecommendedResources(name, target) for name, target in targets.items()]
    return size_pod(read_shape(document), advice, policies(*policy), limits, keep_qos=running)


def only(size: PodSize) -> ContainerSize:
    [one] = size.containers
    return one


def notes(size: ContainerSize, about: str = "") -> list[str]:
    return [str(note) for note in size.notes if about in ("", note.resource)]


def requests_only(**more: Any) -> Document:
    return {"containerName": "*", "controlledValues": "RequestsOnly", **more}


# Requests and limits


def test_requests_are_the_recommendation_and_limits_keep_their_proportion() -> None:
    document = pod(container(requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "1", "memory": "3Gi"}))
    sized = only(size(document, {"app": {"cpu": 800, "memory": 2 * Gi}}))
    assert sized.requests == {"cpu": 800, "memory": 2 * Gi}
    assert sized.limits == {"cpu": 1600, "memory": 6 * Gi}
    assert notes(sized) == []


def test_a_container_that_asks_for_nothing_gets_requests_when_it_is_made() -> None:
    sized = only(size(pod(), {"app": {"cpu": 25, "memory": 250 * Mi}}))
    assert (sized.requests, sized.limits) == ({"cpu": 25, "memory": 250 * Mi}, {})
    assert notes(sized) == []


def test_requests_only_leaves_limits_alone_and_stays_below_them() -> None:
    document = pod(container(requests={"cpu": "500m"}, limits={"cpu": "1"}))
    sized = only(size(document, {"app": {"cpu": 1500}}, requests_only()))
    assert (sized.requests, sized.limits) == ({"cpu": 1000}, {})
    assert notes(sized) == ["cpu capped to container limit"]


def test_no_request_is_set_that_passes_a_limit_by_a_part_of_a_byte() -> None:
    document = pod(container(requests={"memory": "1"}, limits={"memory": "1500m"}))
    sized = only(size(document, {"app": {"memory": Gi}}, requests_only()))
    assert (sized.requests, sized.limits) == ({}, {})
    assert "memory left as it is, since the recommendation would not be admitted" in notes(sized)
    assert only(size(document, {"app": {"memory": 1}}, requests_only())).requests == {"memory": 1}


def test_a_default_limit_of_the_namespace_is_the_limit_of_a_container_without_one() -> None:
    ranges = limit_ranges({"type": "Container", "default": {"cpu": "2"}})
    sized = only(size(pod(container(requests={"cpu": "1"})), {"app": {"cpu": 300}}, limits=ranges))
    assert sized.limits == {"cpu": 600}


def test_the_annotation_speaks_of_a_limit_that_is_not_set_only_beside_one_that_is() -> None:
    document = pod(container(requests={"cpu": "1", "memory": "1Gi"}, limits={"memory": "1Gi"}))
    sized = only(size(document, {"app": {"cpu": 500, "memory": Gi}}))
    assert notes(sized) == ["cpu: limit NOT set since originalLimit is nil or 0"]
    sized = only(size(document, {"app": {"cpu": 500}}, {"containerName": "app", "controlledResources": ["cpu"]}))
    assert notes(sized) == []
    both = pod(container(limits={"cpu": "1", "memory": "1Gi"}))
    sized = only(
        size(both, {"app": {"cpu": 500, "memory": Gi}}, {"containerName": "app", "controlledResources": ["cpu"]})
    )
    assert notes(sized) == ["memory: limit NOT set since recommendedRequest is nil or 0"]


def test_a_limit_beyond_all_counting_is_the_largest_there_is() -> None:
    document = pod(container(requests={"memory": "1"}, limits={"memory": "1Ei"}))
    sized = only(size(document, {"app": {"memory": 1000}}))
    assert sized.limits == {"memory": 2**63 - 1}
    assert notes(sized, "memory") == ["memory: failed to keep limit to request ratio; capping limit to int64"]


def test_policies_bound_the_recommendation_and_are_named() -> None:
    document = pod(container(requests={"cpu": "1"}))
    policy = {"containerName": "app", "maxAllowed": {"cpu": "2"}, "minAllowed": {"memory": "1Gi"}}
    sized = only(size(document, {"app": {"cpu": 5000, "memory": Mi}}, policy))
    assert sized.requests == {"cpu": 2000, "memory": Gi}
    assert notes(sized) == ["cpu capped to maxAllowed", "memory capped to minAllowed"]


def test_containers_under_mode_off_and_those_without_a_recommendation_are_left_out() -> None:
    document = pod(container("app", {"cpu": "1"}), container("off", {"cpu": "1"}), container("new", {"cpu": "1"}))
    targets = {"app": {"cpu": 300}, "off": {"cpu": 300}, "gone": {"cpu": 300}}
    sized = size(document, targets, {"containerName": "off", "mode": "Off"})
    assert [container.container.name for container in sized.containers] == ["app"]
    assert sized.find("off") is None
    assert sized.find("app") is only(sized)
    assert size(document, {}) == PodSize()


def test_native_sidecars_are_sized_like_containers_and_init_containers_are_not() -> None:
    document = pod(
        container("app", {"cpu": "1"}),
        initContainers=[container("setup", {"cpu": "1"}), container("mesh", {"cpu": "1"}, {"cpu": "2"}, **SIDECAR)],
    )
    sized = size(document, {name: {"cpu": 400} for name in ("app", "setup", "mesh")})
    assert [(container.container.name, container.requests, container.limits) for container in sized.containers] == [
        ("app", {"cpu": 400}, {}),
        ("mesh", {"cpu": 400}, {"cpu": 800}),
    ]


def test_limits_keep_the_proportion_of_what_is_in_force_and_requests_stay_below_the_limit_of_the_spec() -> None:
    document = pod(container(requests={"cpu": "1"}, limits={"cpu": "2"}))
    shape = read_shape(document).with_resources(
        {"app": ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "4"})}
    )
    advice = [RecommendedResources("app", {"cpu": 3000})]
    sized = only(size_pod(shape, advice, policies(), NO_LIMITS))
    assert sized.limits == {"cpu": 12_000}
    sized = only(size_pod(shape, advice, policies(requests_only()), NO_LIMITS))
    assert sized.requests == {"cpu": 2000}


# What the API server demands


def test_the_pods_own_request_is_shared_in_proportion() -> None:
    document = pod(
        container("a", {"cpu": "100m"}, {"cpu": "200m"}),
        container("b", {"cpu": "100m"}),
        container("fixed", {"cpu": "200m"}),
        resources={"requests": {"cpu": "1"}},
    )
    sized = size(document, {"a": {"cpu": 1200}, "b": {"cpu": 400}})
    assert [(container.requests, container.limits) for container in sized.containers] == [
        ({"cpu": 600}, {"cpu": 1200}),
        ({"cpu": 200}, {}),
    ]
    assert notes(sized.containers[1]) == ["cpu scaled to fit the pod's own request"]


def test_a_sidecar_leaves_headroom_for_the_init_container_that_starts_after_it() -> None:
    document = pod(
        container("app", {"cpu": "100m"}),
        initContainers=[container("mesh", {"cpu": "100m"}, **SIDECAR), container("setup", {"cpu": "700m"})],
        resources={"requests": {"cpu": "1"}},
    )
    sized = size(document, {"app": {"cpu": 400}, "mesh": {"cpu": 500}})
    assert [container.requests for container in sized.containers] == [{"cpu": 400}, {"cpu": 300}]


def test_no_limit_is_above_the_pods_own_and_the_request_does_not_suffer() -> None:
    document = pod(
        container(requests={"cpu": "500m"}, limits={"cpu": "1"}),
        resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1500m"}},
    )
    sized = only(size(document, {"app": {"cpu": 900}}))
    assert (sized.requests, sized.limits) == ({"cpu": 900}, {"cpu": 1500})
    assert notes(sized, "cpu") == ["cpu limit capped to the pod's own limit"]


def test_where_there_is_no_headroom_at_all_the_pod_stays_as_it_is() -> None:
    document = pod(
        container("app"), container("fixed", {"cpu": "1"}), resources={"requests": {"cpu": "1", "memory": "1Gi"}}
    )
    sized = only(size(document, {"app": {"cpu": 300, "memory": Mi}}))
    assert sized.requests == {"memory": Mi}
    assert notes(sized) == ["cpu left as it is, since the recommendation would not be admitted"]


def test_a_limit_range_wins_over_a_policy_because_the_pod_would_not_be_made() -> None:
    ranges = limit_ranges({"type": "Container", "max": {"cpu": "1"}})
    document = pod(container(requests={"cpu": "500m"}, limits={"cpu": "500m"}))
    sized = only(
        size(document, {"app": {"cpu": 100}}, {"containerName": "app", "minAllowed": {"cpu": "2"}}, limits=ranges)
    )
    assert (sized.requests, sized.limits) == ({"cpu": 1000}, {"cpu": 1000})
    assert notes(sized, "cpu") == ["cpu capped to minAllowed", "cpu capped to fit Max in container LimitRange"]


def test_requests_only_never_falls_so_far_below_the_limit_that_a_ratio_is_broken() -> None:
    ranges = limit_ranges({"type": "Container", "maxLimitRequestRatio": {"cpu": "2.5"}})
    document = pod(container(requests={"cpu": "500m"}, limits={"cpu": "1"}))
    sized = only(size(document, {"app": {"cpu": 100}}, requests_only(), limits=ranges))
    assert sized.requests == {"cpu": 400}
    assert notes(sized) == ["cpu changed to fit maxLimitRequestRatio in LimitRange"]


def test_all_limits_together_fit_a_pod_limit_range_even_after_policies() -> None:
    ranges = limit_ranges({"type": "Pod", "max": {"cpu": "1"}})
    document = pod(*(container(name, {"cpu": "200m"}, {"cpu": "400m"}) for name in "ab"))
    wanted = {"a": {"cpu": 100}, "b": {"cpu": 100}}
    sized = size(document, wanted, {"containerName": "*", "minAllowed": {"cpu": "500m"}}, limits=ranges)
    assert [(container.requests, container.limits) for container in sized.containers] == [
        ({"cpu": 250}, {"cpu": 500})
    ] * 2
    assert notes(sized.containers[0], "cpu") == ["cpu capped to minAllowed", "cpu scaled to fit pod LimitRange"]


def test_pod_limit_ranges_hold_for_the_pods_own_resources_where_it_has_them() -> None:
    ranges = limit_ranges({"type": "Pod", "max": {"cpu": "1"}})
    own = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    document = pod(container(requests={"cpu": "200m"}, limits={"cpu": "400m"}), resources=own)
    sized = only(size(document, {"app": {"cpu": 800}}, limits=ranges))
    assert (sized.requests, sized.limits) == ({"cpu": 800}, {"cpu": 1000})


# Pods that run keep their class


GUARANTEED = {"cpu": "1", "memory": "1Gi"}


def test_a_guaranteed_pod_moves_request_and_limit_together() -> None:
    sized = only(size(pod(container(limits=GUARANTEED)), {"app": {"cpu": 700, "memory": Gi}}, running=True))
    assert sized.requests == sized.limits == {"cpu": 700, "memory": Gi}
    assert notes(sized) == []


def test_a_guaranteed_pod_whose_limits_stay_keeps_its_requests_too() -> None:
    sized = only(
        size(pod(container(limits=GUARANTEED)), {"app": {"cpu": 700, "memory": Gi}}, requests_only(), running=True)
    )
    assert (sized.requests, sized.limits) == ({"memory": Gi}, {})
    assert notes(sized) == ["cpu held back to keep the QoS class"]


def test_a_burstable_pod_stays_one_millicore_away_from_guaranteed() -> None:
    document = pod(container(requests={"cpu": "500m", "memory": "1Gi"}, limits=GUARANTEED))
    targets = {"app": {"cpu": 3000, "memory": 2 * Gi}}
    sized = only(size(document, targets, requests_only(), running=True))
    assert sized.requests == {"cpu": 999, "memory": Gi}
    assert notes(sized) == [
        "cpu capped to container limit",
        "memory capped to container limit",
        "cpu held back to keep the QoS class",
    ]
    assert only(size(document, targets, requests_only())).requests == {"cpu": 1000, "memory": Gi}


def test_a_running_best_effort_pod_is_not_sized_and_the_note_has_the_reason() -> None:
    sized = only(size(pod(), {"app": {"cpu": 25, "memory": Mi}}, running=True))
    assert (sized.requests, sized.limits) == ({}, {})
    assert notes(sized) == ["cpu held back to keep the QoS class", "memory held back to keep the QoS class"]


def test_the_class_of_a_pod_with_its_own_resources_does_not_depend_on_its_containers() -> None:
    document = pod(container(), resources={"limits": GUARANTEED})
    sized = only(size(document, {"app": {"cpu": 25, "memory": Mi}}, running=True))
    assert sized.requests == {"cpu": 25, "memory": Mi}
