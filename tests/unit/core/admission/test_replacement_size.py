"""The requests of a replacement are those that admission writes into a new pod of the same shape."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import Pod
from trellis.core.admission.pod_patches import admit_pod
from trellis.core.admission.replacement_size import compute_replacement_size
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.fit import Demand
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor, compile_vpa_governor
from trellis.sim.cluster.api_server import apply_patch

SETTINGS = BoostSettings()
UNLIMITED = NamespaceLimits()


def a_governor(cpu: str, mode: str, factor: int) -> Governor:
    boost = {"startupBoost": {"cpu": {"type": "Factor", "factor": factor}}} if factor else {}
    recommended = {"containerName": "app", "target": {"cpu": cpu, "memory": "1Gi"}}
    document = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"targetRef": {"kind": "Deployment", "name": "web"}, "updatePolicy": {"updateMode": mode}, **boost},
        "status": {"recommendation": {"containerRecommendations": [recommended]}},
    }
    governor = compile_vpa_governor(convert_object(document, VerticalPodAutoscaler))
    assert governor is not None
    return governor


def a_pod(**resources: Any) -> Pod:
    containers = [{"name": "app", "resources": resources}, {"name": "proxy"}]
    return convert_object(
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"containers": containers}}, Pod
    )


def requests_of(pod: Pod, governor: Governor) -> dict[str, int]:
    size = compute_replacement_size(pod, governor, UNLIMITED, SETTINGS)
    return dict(Demand.of(pod.spec, size.starting).requests)


@given(
    st.sampled_from(["100m", "900m", "3"]),
    st.sampled_from(["Initial", "Recreate", "InPlaceOrRecreate", "InPlace"]),
    st.sampled_from([0, 3]),
    st.sampled_from([{}, {"cpu": "500m"}, {"cpu": "500m", "memory": "64Mi"}]),
    st.booleans(),
)
def test_a_replacement_requests_what_admission_gives_it(
    cpu: str, mode: str, factor: int, requests: dict[str, str], limited: bool
) -> None:
    pod = a_pod(requests=requests, **({"limits": {name: "4" for name in requests if name == "cpu"}} if limited else {}))
    governor = a_governor(cpu, mode, factor)
    admitted = apply_patch(pod, admit_pod(pod, governor, UNLIMITED, SETTINGS, lambda: None).patch)
    assert requests_of(pod, governor) == dict(Demand.of(admitted.spec).requests)
    # The pod itself was admitted and boosted: its own replacement starts alike.
    assert requests_of(admitted, governor) == requests_of(pod, governor)


def test_the_replacement_of_a_boosted_pod_whose_boost_was_removed_has_its_former_requests() -> None:
    pod = a_pod(requests={"cpu": "500m"})
    boosted = apply_patch(pod, admit_pod(pod, a_governor("900m", "Off", 3), UNLIMITED, SETTINGS, lambda: None).patch)
    assert Demand.of(boosted.spec).requests["cpu"] == 1500
    assert requests_of(boosted, a_governor("900m", "InPlace", 0))["cpu"] == 900
