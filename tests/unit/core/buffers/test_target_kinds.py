"""The selector and the pod template in a workload's document."""

from __future__ import annotations

from typing import Any

import pytest

from support.worlds.buffers import a_pod, a_spec, a_template, app, requests_of, translated
from trellis.base.errors import InvalidSelector
from trellis.core.admission.starting_cpu import remove_boost
from trellis.core.buffers import TargetFacts, TranslationFacts, selector_in, template_in

EXACTLY = {
    "spec": {
        "targetRef": {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "web"},
        "capacity": {"replicas": {"exactly": 2}},
    }
}


def test_a_template_is_that_of_the_spec_and_none_if_there_is_none() -> None:
    assert template_in({"spec": {"template": {"spec": {"containers": []}}}}) == {"spec": {"containers": []}}
    assert template_in({"spec": {}}) is None
    assert template_in({}) is None


def test_claims_of_a_stateful_set_replace_volumes_of_the_same_name() -> None:
    spec: dict[str, Any] = {
        "template": {"spec": {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    }
    document = {"metadata": {"name": "db"}, "spec": spec}
    result = template_in(document)
    assert result is not None
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    assert result["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}, claim]
    assert len(spec["template"]["spec"]["volumes"]) == 2


def test_a_selector_is_read_as_a_deployment_writes_it() -> None:
    expression = {"key": "tier", "operator": "In", "values": ["a", "b"]}
    selector = selector_in({"matchLabels": {"app": "web"}, "matchExpressions": [expression]})
    assert selector.matches({"app": "web", "tier": "b"})
    assert not selector.matches({"app": "web"})
    assert selector_in(None).selects_nothing
    with pytest.raises(InvalidSelector):
        selector_in({"matchExpressions": [{"key": "tier", "operator": "Near"}]})


@pytest.mark.req("BF-13")
def test_the_last_shape_counts_where_there_is_neither_pod_nor_template() -> None:
    last = a_template(a_spec(app(cpu="3")))
    result = translated(EXACTLY, TranslationFacts(TargetFacts(0, last=last)))
    assert (result.chunks, requests_of(result)["cpu"], result.is_ready) == (2, "3", True)
    template = a_template(a_spec(app(cpu="1")))
    assert (
        requests_of(translated(EXACTLY, TranslationFacts(TargetFacts(0, template=template, last=last))))["cpu"] == "1"
    )
    assert translated(EXACTLY, TranslationFacts(TargetFacts(0))).pod_spec is None


def test_removing_a_boost_restores_the_cpu_of_the_pod() -> None:
    had = '{"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {}}'
    spec = a_spec(app(cpu="2", memory="3Gi", limits={"cpu": "4"}), app("proxy", cpu="1"))
    pod = remove_boost(a_pod(spec, annotations={"vpaCpuStartupBoost/app": had}))
    assert [dict(container.resources.requests) for container in pod.spec.containers] == [
        {"memory": "3Gi", "cpu": "500m"},
        {"cpu": "1"},
    ]
    assert not pod.spec.containers[0].resources.limits
    plain = a_pod(spec)
    assert remove_boost(plain) is plain
    unreadable = a_pod(spec, annotations={"vpaCpuStartupBoost/app": "what"})
    assert remove_boost(unreadable) is unreadable
