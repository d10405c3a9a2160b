"""What a pod gets when it is made, as the pod that comes out of it."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import hvpa, vpa
from support.json_patch import apply_patch
from support.worlds.boosts import NO_LIMITS, ON, container, limit_range, with_memory
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import Pod
from trellis.core.admission.pod_patches import (
    POD_ALREADY_SIZED,
    POD_BOOSTED,
    POD_SIZED,
    POD_WITHOUT_ADVICE,
    PodAdmissionDecision,
    admit_pod,
)
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor

TWICE = {"cpu": {"type": "Factor", "factor": 2}}


def recommended(**targets: dict[str, str]) -> dict[str, Any]:
    every = [{"containerName": name, "target": target} for name, target in targets.items()]
    return {"recommendation": {"containerRecommendations": every}}


def governor(status: dict[str, Any] | None = None, **spec: Any) -> Governor:
    document = vpa(**spec) | ({"status": status} if status else {})
    governor = compile_vpa_governor(msgspec.convert(document, VerticalPodAutoscaler))
    assert governor is not None
    return governor


def pod(*containers: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"generateName": "web-", "labels": {"app": "web"}}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {"containers": list(containers), **spec}}


def admitted(
    document: dict[str, Any],
    by: Governor,
    limits: NamespaceLimits = NO_LIMITS,
    boosting: BoostSettings = ON,
    ceiling: CpuCeiling | None = None,
) -> tuple[dict[str, Any], PodAdmissionDecision]:
    verdict = admit_pod(msgspec.convert(document, Pod), by, limits, boosting, lambda: ceiling)
    operations = msgspec.to_builtins(verdict.patch)
    return apply_patch(copy.deepcopy(document), operations), verdict


def resources(document: dict[str, Any], index: int = 0, place: str = "containers") -> dict[str, Any]:
    requirements: dict[str, Any] = document["spec"][place][index].get("resources", {})
    return {field: amounts for field, amounts in requirements.items() if amounts}


APP = recommended(app={"cpu": "800m", "memory": "300Mi"})


def test_a_pod_gets_what_is_recommended_and_the_annotations_say_so() -> None:
    after, verdict = admitted(
        pod(with_memory(container("500m"), "100Mi"), container("50m", name="proxy")), governor(APP)
    )
    assert resources(after) == {"requests": {"cpu": "800m", "memory": "300Mi"}}
    assert resources(after, 1) == {"requests": {"cpu": "50m"}}
    annotations = after["metadata"]["annotations"]
    assert annotations["vpaUpdates"] == "Pod resources updated by web: container 0: cpu request, memory request"
    assert annotations["vpaObservedContainers"] == "app, proxy"
    assert json.loads(annotations["trellis.x-k8s.io/sized"]) == {
        "by": "VerticalPodAutoscaler/web",
        "containers": {"app": {"requests": {"cpu": ["500m", "800m"], "memory": ["100Mi", "300Mi"]}}},
    }
    assert (verdict.reason, verdict.applied) == (POD_SIZED, True)


def test_a_pod_without_any_resources_gets_them() -> None:
    after, _ = admitted(pod({"name": "app"}), governor(APP))
    assert resources(after) == {"requests": {"cpu": "800m", "memory": "300Mi"}}


def test_limits_follow_in_proportion() -> None:
    after, _ = admitted(pod(container("500m", "1")), governor(APP))
    assert resources(after)["limits"] == {"cpu": "1600m"}


def test_what_the_author_wrote_of_other_annotations_and_resources_stays() -> None:
    gpu = {"name": "app", "resources": {"limits": {"example.com/gpu": "1"}, "claims": [{"name": "net"}]}}
    after, _ = admitted(pod(gpu, annotations={"team": "shop"}), governor(APP))
    assert after["metadata"]["annotations"]["team"] == "shop"
    assert after["spec"]["containers"][0]["resources"]["claims"] == [{"name": "net"}]
    assert resources(after)["limits"] == {"example.com/gpu": "1"}


def test_a_native_sidecar_is_sized_and_a_plain_init_container_is_not() -> None:
    inits = [container("10m", name="setup"), {**container("10m", name="proxy"), "restartPolicy": "Always"}]
    status = recommended(setup={"cpu": "70m"}, proxy={"cpu": "90m"}, app={"cpu": "200m"})
    after, _ = admitted(pod(container("100m"), initContainers=inits), governor(status))
    assert resources(after, 0, "initContainers") == {"requests": {"cpu": "10m"}}
    assert resources(after, 1, "initContainers") == {"requests": {"cpu": "90m"}}
    assert after["metadata"]["annotations"]["vpaUpdates"] == (
        "Pod resources updated by web: container 0: cpu request; init container 1: cpu request"
    )


def test_a_pod_that_has_it_already_is_marked_and_otherwise_left_as_it_is() -> None:
    before = pod(with_memory(container("0.8"), "300Mi"))
    after, verdict = admitted(before, governor(APP))
    assert after["spec"] == before["spec"]
    assert verdict.reason is POD_ALREADY_SIZED
    assert not verdict.applied


def test_without_a_recommendation_a_pod_is_only_marked_as_observed() -> None:
    before = pod(container("500m"))
    after, verdict = admitted(before, governor())
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == {"vpaObservedContainers": "app"}
    assert verdict.reason is POD_WITHOUT_ADVICE


def test_what_a_policy_changes_is_reported_in_upstreams_words() -> None:
    policy = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "600m"}}]}
    after, _ = admitted(pod(container("500m")), governor(APP, resourcePolicy=policy))
    assert resources(after)["requests"]["cpu"] == "600m"
    assert "container 0: cpu capped to maxAllowed, cpu request" in after["metadata"]["annotations"]["vpaUpdates"]
    annotation = json.loads(after["metadata"]["annotations"]["trellis.x-k8s.io/sized"])
    assert annotation["containers"]["app"]["why"] == ["cpu CappedToMaxAllowed"]


@pytest.mark.req("AR-19")
def test_a_new_pod_gets_the_whole_recommendation_whatever_changes_are_allowed_to_running_ones() -> None:
    policy = {
        "updateMode": "Recreate",
        "actuationRequirements": [
            {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"},
            {"resources": ["memory"], "changeRequirement": "TargetHigherThanRequests"},
        ],
    }
    after, _ = admitted(pod(with_memory(container("2"), "1Gi")), governor(APP, updatePolicy=policy))
    assert resources(after) == {"requests": {"cpu": "800m", "memory": "300Mi"}}


@pytest.mark.parametrize("mode", ["Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace", "InPlaceOnly"])
def test_every_mode_but_off_sizes_new_pods(mode: str) -> None:
    after, _ = admitted(pod(container("500m")), governor(APP, updatePolicy={"updateMode": mode}))
    assert resources(after)["requests"]["cpu"] == "800m"


def test_a_vpa_in_mode_off_that_boosts_nothing_governs_nothing() -> None:
    document = vpa(updatePolicy={"updateMode": "Off"}) | {"status": APP}
    assert compile_vpa_governor(msgspec.convert(document, VerticalPodAutoscaler)) is None


@pytest.mark.req("SB-50")
def test_in_mode_off_a_pod_is_boosted_from_its_own_request_and_nothing_else_changes() -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "10s"}}
    by = governor(APP, updatePolicy={"updateMode": "Off"}, startupBoost=boost)
    after, verdict = admitted(pod(with_memory(container("500m"), "100Mi")), by)
    assert resources(after) == {"requests": {"cpu": "1500m", "memory": "100Mi"}}
    assert verdict.reason is POD_BOOSTED
    annotations = after["metadata"]["annotations"]
    assert json.loads(annotations["vpaCpuStartupBoost/app"]) == {
        "requests": {"cpu": "500m", "memory": "100Mi"},
        "limits": {},
    }
    assert json.loads(annotations["trellis.x-k8s.io/sized"])["containers"]["app"]["boosted"] is True


@pytest.mark.req("SB-52")
def test_in_mode_auto_the_recommendation_of_that_moment_is_boosted() -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "10s"}}
    status = recommended(app={"cpu": "400m"})
    after, _ = admitted(
        pod(container("500m")), governor(status, updatePolicy={"updateMode": "Auto"}, startupBoost=boost)
    )
    assert resources(after)["requests"]["cpu"] == "1200m"


@pytest.mark.req("SB-51")
def test_without_a_boost_a_pod_has_no_mark_of_one() -> None:
    after, _ = admitted(pod(container("500m")), governor(APP, updatePolicy={"updateMode": "Auto"}))
    assert resources(after)["requests"] == {"cpu": "800m", "memory": "300Mi"}
    assert not any(key.startswith("vpaCpuStartupBoost/") for key in after["metadata"]["annotations"])


@pytest.mark.req("SB-45")
def test_with_the_gate_off_a_stored_boost_raises_nothing() -> None:
    after, _ = admitted(
        pod(container("500m")), governor(APP, startupBoost=TWICE), boosting=BoostSettings(enabled=False)
    )
    assert resources(after)["requests"]["cpu"] == "800m"
    assert not any(key.startswith("vpaCpuStartupBoost/") for key in after["metadata"]["annotations"])


@pytest.mark.req("SB-21")
def test_a_limit_that_a_boost_leaves_alone_is_not_reported_as_updated() -> None:
    only = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}
    after, _ = admitted(
        pod(container("500m", "1")),
        governor(startupBoost={"cpu": {"type": "Factor", "factor": 3}}, resourcePolicy=only),
    )
    assert resources(after) == {"requests": {"cpu": "999m"}, "limits": {"cpu": "1"}}
    annotations = after["metadata"]["annotations"]
    message = "container 0: cpu boost kept below container limit, cpu request"
    assert annotations["vpaUpdates"] == f"Pod resources updated by web: {message}"
    assert "limits" not in json.loads(annotations["trellis.x-k8s.io/sized"])["containers"]["app"]


@pytest.mark.req("SB-03")
def test_memory_is_the_same_with_and_without_a_boost() -> None:
    before = pod(with_memory(container("500m", "1"), "100Mi", "200Mi"))
    plain, _ = admitted(before, governor(APP))
    boosted, _ = admitted(before, governor(APP, startupBoost=TWICE))
    for field in ("requests", "limits"):
        assert resources(boosted)[field]["memory"] == resources(plain)[field]["memory"]


def test_a_boost_that_fits_no_node_is_a_warning_to_the_client_that_creates_the_pod() -> None:
    after, verdict = admitted(
        pod(container("500m")), governor(startupBoost=TWICE), ceiling=CpuCeiling(900, binding=False)
    )
    assert resources(after)["requests"]["cpu"] == "1"
    assert verdict.warnings == ("app: cpu boost makes the pod too large for every node",)


def test_where_nodes_bind_the_boost_is_cut_and_the_annotation_says_so() -> None:
    after, verdict = admitted(
        pod(container("500m")), governor(startupBoost=TWICE), ceiling=CpuCeiling(900, binding=True)
    )
    assert resources(after)["requests"]["cpu"] == "900m"
    assert "cpu boost capped to fit a node" in after["metadata"]["annotations"]["vpaUpdates"]
    assert verdict.warnings == ()


def test_the_mark_of_an_old_boost_does_not_stay_on_a_pod_that_is_not_boosted() -> None:
    copied = {"vpaCpuStartupBoost/app": '{"requests":{"cpu":"500m"},"limits":{}}', "vpaObservedContainers": "app"}
    after, _ = admitted(pod(container("1"), annotations=copied), governor(APP))
    assert "vpaCpuStartupBoost/app" not in after["metadata"]["annotations"]
    assert resources(after)["requests"]["cpu"] == "800m"


@pytest.mark.parametrize("had", [{"requests": {"cpu": "100m"}, "limits": {}}, {"requests": {}, "limits": {"cpu": "3"}}])
def test_a_mark_that_does_not_go_with_the_pod_is_not_believed(had: dict[str, Any]) -> None:
    """Its limit stays under this policy, and no request may pass it."""
    only = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}
    by = governor(startupBoost={"cpu": {"type": "Factor", "factor": 9}}, resourcePolicy=only)
    came = pod(container("500m", "600m"), annotations={"vpaCpuStartupBoost/app": json.dumps(had)})
    after, _ = admitted(came, by)
    assert resources(after) == {"requests": {"cpu": "599m"}, "limits": {"cpu": "600m"}}
    remembered = json.loads(after["metadata"]["annotations"]["vpaCpuStartupBoost/app"])
    assert remembered == {"requests": {"cpu": "500m"}, "limits": {"cpu": "600m"}}


def test_an_hvpa_sizes_its_pods_by_its_own_recommendation_and_its_template() -> None:
    document = hvpa(vpa={"template": {"spec": {"startupBoost": TWICE}}}) | {"status": APP}
    by = compile_hvpa_governor(msgspec.convert(document, Hvpa))
    after, _ = admitted(pod(container("500m")), by)
    assert resources(after)["requests"] == {"cpu": "1600m", "memory": "300Mi"}
    assert json.loads(after["metadata"]["annotations"]["trellis.x-k8s.io/sized"])["by"] == "Hvpa/web"


AMOUNTS = st.none() | st.integers(1, 4000).map(lambda milli: f"{milli}m")


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["app", "proxy", "log"]), min_size=1, unique=True))
    made = []
    for name in names:
        request, limit = draw(AMOUNTS), draw(AMOUNTS)
        if request and limit and int(request[:-1]) > int(limit[:-1]):
            request, limit = limit, request
        made.append(container(request, limit, name=name))
    return pod(*made)


@st.composite
def governors(draw: st.DrawFn) -> Governor:
    targets = draw(st.dictionaries(st.sampled_from(["app", "proxy"]), st.integers(1, 4000)))
    status = recommended(**{name: {"cpu": f"{milli}m"} for name, milli in targets.items()})
    boost = draw(
        st.sampled_from(
            [TWICE, {"cpu": {"type": "Quantity", "quantity": "700m"}}, {"cpu": {"type": "Factor", "factor": 9}}]
        )
    )
    values = draw(st.sampled_from(["RequestsAndLimits", "RequestsOnly"]))
    policy = {"containerPolicies": [{"containerName": "*", "controlledValues": values}]}
    return governor(status, startupBoost=boost, resourcePolicy=policy)


@given(pods(), governors(), st.sampled_from([NO_LIMITS, limit_range("Container", max={"cpu": "3"})]))
def test_a_second_review_of_a_changed_pod_has_no_patch(
    document: dict[str, Any], by: Governor, limits: NamespaceLimits
) -> None:
    once, _ = admitted(document, by, limits)
    twice, verdict = admitted(once, by, limits)
    assert twice == once
    assert not verdict.applied


@given(pods(), governors())
def test_no_request_is_ever_above_its_limit(document: dict[str, Any], by: Governor) -> None:
    after, _ = admitted(document, by)
    for sized_container in msgspec.convert(after, Pod).spec.containers:
        request, limit = sized_container.resources.requests.get("cpu"), sized_container.resources.limits.get("cpu")
        if request and limit:
            assert _milli(request) <= _milli(limit)


BYTES = st.integers(1, 4000).map(lambda count: f"{count}Mi")


@st.composite
def pods_with_memory(draw: st.DrawFn) -> dict[str, Any]:
    document = draw(pods())
    for container_spec in document["spec"]["containers"]:
        request, limit = sorted((draw(BYTES), draw(BYTES)), key=lambda text: int(text[:-2]))
        with_memory(container_spec, request, draw(st.sampled_from([None, request, limit])))
    return document


def memory_of(document: dict[str, Any]) -> list[list[str | None]]:
    """By container, the memory that is requested, and the limit."""
    requirements = [container.get("resources", {}) for container in document["spec"]["containers"]]
    return [[amounts.get(field, {}).get("memory") for field in ("requests", "limits")] for amounts in requirements]


@pytest.mark.req("SB-03")
@given(
    pods_with_memory(),
    st.dictionaries(st.sampled_from(["app", "proxy"]), BYTES),
    st.sampled_from(["Initial", "Recreate", "InPlace"]),
    st.sampled_from(["RequestsAndLimits", "RequestsOnly"]),
    st.sampled_from([TWICE, {"cpu": {"type": "Quantity", "quantity": "700m"}}]),
)
def test_memory_of_any_pod_is_the_same_with_and_without_a_boost(
    document: dict[str, Any], targets: dict[str, str], mode: str, values: str, boost: dict[str, Any]
) -> None:
    status = recommended(**{name: {"cpu": "300m", "memory": memory} for name, memory in targets.items()})
    policy = {"containerPolicies": [{"containerName": "*", "controlledValues": values}]}
    spec = {"updatePolicy": {"updateMode": mode}, "resourcePolicy": policy}
    plain, _ = admitted(document, governor(status, **spec))
    boosted, _ = admitted(document, governor(status, startupBoost=boost, **spec))
    assert memory_of(boosted) == memory_of(plain)


@pytest.mark.req("SB-03")
@given(pods_with_memory())
def test_memory_of_any_pod_stays_when_a_boost_is_all_there_is(document: dict[str, Any]) -> None:
    by = governor(APP, updatePolicy={"updateMode": "Off"}, startupBoost=TWICE)
    after, _ = admitted(document, by)
    assert memory_of(after) == memory_of(document)


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000
