"""Whatever is recommended: a pod that the API server would take is still taken after it was sized.

Pods, LimitRanges and policies are drawn at random and small, so that bounds meet; the judge is `pod_admission_oracle`,
which knows nothing of how sizes are made.
"""

from __future__ import annotations

from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from support.builders.pods import Document, container, limit_ranges, pod, policies, read_shape, resized
from support.oracles.pod_admission import aggregate, list_problems, qos_class, with_defaults
from trellis.api.kube.pods import ResourceRequirements
from trellis.core.recommend.capping import NamespaceLimits, RecommendedResources
from trellis.core.sizing import size_pod

BOTH = ("cpu", "memory")
SIDECAR: Document = {"restartPolicy": "Always"}

# A number, or nothing; so few and so small that bounds meet often.
some = st.integers(-4, 12).map(lambda number: None if number < 0 else number)
pairs = st.tuples(some, some)
maxima = st.integers(-12, 36).map(lambda number: None if number < 1 else number)
minima = st.integers(-4, 4).map(lambda number: None if number < 0 else number)
Pair = tuple[int | None, int | None]


def written(pair: Pair) -> dict[str, str]:
    return {
        name: f"{count}m" if name == "cpu" else str(count)
        for name, count in zip(BOTH, pair, strict=True)
        if count is not None
    }


def made(name: str, requests: Pair, limits: Pair, guaranteed: bool, **more: Any) -> Document:
    """A container whose requests are at most its limits."""
    low = [a if a is None or b is None else min(a, b) for a, b in zip(requests, limits, strict=True)]
    return container(name, written(limits if guaranteed else (low[0], low[1])), written(limits), **more)


drawn_containers = st.tuples(pairs, pairs, st.booleans())


@st.composite
def pods(draw: st.DrawFn) -> Document:
    ordinary = draw(st.lists(drawn_containers, min_size=1, max_size=2))
    inits = draw(st.lists(st.tuples(drawn_containers, st.booleans()), max_size=3))
    document = with_defaults(
        pod(
            *(made(f"c{number}", *amounts) for number, amounts in enumerate(ordinary)),
            initContainers=[
                made(f"i{number}", *amounts, **(SIDECAR if sidecar else {}))
                for number, (amounts, sidecar) in enumerate(inits)
            ],
        )
    )
    spare = draw(st.none() | pairs)
    if spare is not None:
        document["spec"]["resources"] = own_resources(document["spec"], spare, draw(st.booleans()))
    return with_defaults(document)


def own_resources(spec: Document, spare: Pair, limited: bool) -> Document:
    """Resources of the pod with so much to spare, and the same limits if all containers are within them."""
    needed = aggregate(spec, "requests")
    requests: Pair = tuple(  # type: ignore[assignment]
        None if more is None else int(needed.get(name, 0) * unit) + more
        for name, unit, more in zip(BOTH, (1000, 1), spare, strict=True)
    )
    own = {"requests": written(requests), "limits": written(requests)}
    return (
        own
        if limited and not list_problems({"spec": {**spec, "resources": own}}, [])
        else {"requests": own["requests"]}
    )


@st.composite
def ranges(draw: st.DrawFn) -> list[Document]:
    return [
        {
            "type": type_,
            "max": written(most),
            "min": written(least),
            "maxLimitRequestRatio": {} if ratio is None else {resource: ratio},
        }
        for type_, most, least, ratio, resource in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["Container", "Pod"]),
                    st.tuples(maxima, maxima),
                    st.tuples(minima, minima),
                    st.sampled_from([None, "1", "1.5", "3"]),
                    st.sampled_from(BOTH),
                ),
                max_size=3,
            )
        )
    ]


@st.composite
def container_policies(draw: st.DrawFn) -> list[Document]:
    name, values, controlled, low, high, mode = draw(
        st.tuples(
            st.sampled_from(["*", "*", "c0", "i0"]),
            st.sampled_from(["RequestsOnly", "RequestsAndLimits"]),
            st.sampled_from([list(BOTH), ["cpu"], ["memory"]]),
            pairs,
            pairs,
            st.sampled_from(["Auto", "Auto", "Auto", "Off"]),
        )
    )
    policy = {"containerName": name, "controlledValues": values, "controlledResources": controlled, "mode": mode}
    return [{**policy, "minAllowed": written(low), "maxAllowed": written(high)}]


targets = st.dictionaries(
    st.sampled_from(["c0", "c1", "i0", "i1"]),
    st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: dict(zip(BOTH, pair, strict=True))),
    min_size=1,
)


def size(document: Document, items: list[Document], policy: list[Document], wanted: Any, **more: Any) -> Document:
    shape = more.pop("shape", None) or read_shape(document)
    advice = [RecommendedResources(name, target) for name, target in wanted.items()]
    return resized(document, size_pod(shape, advice, policies(*policy), limit_ranges(*items), **more))


@given(pods(), ranges(), container_policies(), targets)
def test_a_pod_is_never_refused_because_it_was_sized(
    document: Document, items: list[Document], policy: list[Document], wanted: Any
) -> None:
    ranges = [item for item in items if not list_problems(document, [item])]
    assert list_problems(document, ranges) == []
    assert list_problems(size(document, ranges, policy, wanted), ranges) == []


@given(pods(), ranges(), container_policies(), targets)
@example(
    pod(container("c0", {"cpu": "1m", "memory": "1"}, {"cpu": "1m", "memory": "2"})),
    [{"type": "Container", "min": {"memory": "2"}}],
    [{"containerName": "*", "controlledValues": "RequestsOnly"}],
    {"c0": {"memory": 9}},
)
def test_a_pod_that_runs_keeps_its_class_and_is_never_refused(
    document: Document, items: list[Document], policy: list[Document], wanted: Any
) -> None:
    ranges = [item for item in items if not list_problems(document, [item])]
    sized = size(document, ranges, policy, wanted, keep_qos=True)
    assert qos_class(sized["spec"]) == qos_class(document["spec"])
    assert list_problems(sized, ranges) == []


@given(pods(), ranges(), container_policies(), targets)
def test_a_pod_that_breaks_a_limit_range_already_is_not_made_invalid_as_well(
    document: Document, items: list[Document], policy: list[Document], wanted: Any
) -> None:
    assert list_problems(size(document, items, policy, wanted), []) == []


@given(pods(), container_policies(), targets, st.dictionaries(st.sampled_from(["c0", "i0"]), drawn_containers))
def test_so_it_is_while_other_amounts_than_the_specs_are_in_force(
    document: Document, policy: list[Document], wanted: Any, in_force: Any
) -> None:
    amounts = {
        name: ResourceRequirements(**made(name, *requirements)["resources"]) for name, requirements in in_force.items()
    }
    shape = read_shape(document).with_resources(amounts)
    sized = size(document, [], policy, wanted, keep_qos=True, shape=shape)
    assert qos_class(sized["spec"]) == qos_class(document["spec"])
    assert list_problems(sized, []) == []


@given(pods(), container_policies(), targets)
def test_sizing_a_sized_pod_again_changes_nothing(document: Document, policy: list[Document], wanted: Any) -> None:
    # Rounding limits down moves their proportion a little, so that only requests are settled at once.
    assume("resources" not in document["spec"])
    policy = [{**policy[0], "containerName": "*", "controlledValues": "RequestsOnly"}]
    once = size(document, [], policy, wanted)
    assert size(once, [], policy, wanted) == once


@given(pods(), targets)
def test_an_absent_bound_does_not_limit(document: Document, wanted: Any) -> None:
    document["spec"].pop("resources", None)
    size = size_pod(
        read_shape(document), [RecommendedResources(*item) for item in wanted.items()], policies(), NamespaceLimits()
    )
    for sized in size.containers:
        # Only beside a limit of zero, which is no limit to the kubelet, the API server takes no request.
        asked = wanted[sized.container.name].items()
        expected = {name: amount for name, amount in asked if not amount or sized.container.limits.get(name) != 0}
        assert sized.requests == expected
        assert all(sized.requests[name] <= limit for name, limit in sized.limits.items())
