"""Upstream's CapacityBuffers: served by its rules, and made of our Buffers."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.manifests import buffer, replica_buffer
from support.worlds.buffers import NOON, SETTINGS, Document, a_quota, a_spec, a_template, app, target_facts, translated
from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodTemplate
from trellis.core.buffers import (
    BufferSettings,
    TargetFacts,
    Translation,
    TranslationFacts,
    apply_quotas,
    build_capacity_status,
    export_buffer,
    is_served,
    managed_template_name,
    translate_capacity_buffer,
)
from trellis.core.buffers.capacity_buffers import LIMITS_NOT_REQUESTED, NO_REFERENCE, SIZE_NOT_STATED
from trellis.core.buffers.chunks import TARGET_NOT_OBSERVED
from trellis.core.cluster.target_problems import TARGET_NOT_FOUND, build_target_problem

SCALABLE: Document = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}
TEMPLATE: Document = {"podTemplateRef": {"name": "chunk"}}


def upstream(status: Document | None = None, **spec: Any) -> CapacityBuffer:
    document = {"metadata": {"name": "web", "generation": 3}, "spec": spec, "status": status or {}}
    return convert_object(document, CapacityBuffer)


def served(facts: TranslationFacts | None = None, **spec: Any) -> Translation:
    return translate_capacity_buffer(upstream(**spec), facts or target_facts(), SETTINGS)


@pytest.mark.parametrize(
    ("spec", "replicas", "chunks"),
    [
        ({"replicas": 3}, 10, 3),
        ({"percentage": 10}, 35, 4),
        ({"percentage": 50}, 0, 0),
        ({"replicas": 3, "percentage": 50}, 10, 5),
        ({"replicas": 8, "percentage": 50}, 10, 8),
        ({"percentage": 250}, 3, 8),
        ({"limits": {"cpu": "3"}}, 10, 6),
        ({"limits": {"cpu": "3", "memory": "2Gi", "example.com/gpu": "1"}}, 10, 2),
        ({"replicas": 4, "limits": {"cpu": "3"}}, 10, 4),
        ({"replicas": 9, "limits": {"cpu": "3"}}, 10, 6),
        ({"replicas": 9, "limits": {"cpu": "-1"}}, 10, 0),
    ],
)
def test_the_larger_of_replicas_and_percentage_counts_within_limits(spec: Document, replicas: int, chunks: int) -> None:
    assert served(target_facts(replicas), **SCALABLE, **spec).chunks == chunks


@pytest.mark.parametrize(
    ("spec", "facts", "reason"),
    [
        ({"replicas": 1}, target_facts(), NO_REFERENCE),
        (SCALABLE, target_facts(), SIZE_NOT_STATED),
        ({**SCALABLE, "percentage": 10}, target_facts(replicas=None), SIZE_NOT_STATED),
        ({**TEMPLATE, "percentage": 10}, target_facts(), SIZE_NOT_STATED),
        ({**SCALABLE, "limits": {"example.com/gpu": "1"}}, target_facts(), LIMITS_NOT_REQUESTED),
        ({**SCALABLE, "replicas": 1}, TranslationFacts(), TARGET_NOT_OBSERVED),
        (
            {**SCALABLE, "replicas": 1},
            TranslationFacts(build_target_problem(TARGET_NOT_FOUND, "gone")),
            TARGET_NOT_FOUND,
        ),
    ],
)
def test_an_unusable_capacity_buffer_has_upstreams_message(
    spec: Document, facts: TranslationFacts, reason: object
) -> None:
    made = served(facts, **spec)
    assert (made.is_ready, made.ready.reason) == (False, reason)
    status = build_capacity_status(upstream(**spec), made, None, NOON)
    [_, ready] = status["conditions"]
    assert (ready["status"], ready["reason"]) == ("False", "error")
    assert ready["message"] == f"Buffer not ready for provisioning: {made.ready}"
    assert "replicas" not in status


def test_a_template_by_reference_is_the_shape() -> None:
    target = TargetFacts(template=a_template(a_spec(app(cpu="2"))))
    made = served(TranslationFacts(target), **TEMPLATE, limits={"cpu": "5"})
    assert (made.chunks, made.is_ready) == (2, True)


def test_a_status_in_upstreams_words() -> None:
    made = served(**SCALABLE, replicas=5)
    key = ("ns", "web")
    made = apply_quotas({key: (0.0, made)}, [a_quota("compute", {"pods": "2"})])[key]
    assert build_capacity_status(upstream(**SCALABLE, replicas=5), made, 7, NOON) == {
        "podTemplateRef": {"name": "capacitybuffer-web-pod-template"},
        "podTemplateGeneration": 7,
        "replicas": 2,
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        "conditions": [
            {
                "type": "LimitedByQuotas",
                "status": "True",
                "lastTransitionTime": "2026-11-18T12:00:00Z",
                "reason": "ResourceQuotasAllocated",
                "message": "Buffer replicas limited from 5 to 2 due to quotas: compute",
                "observedGeneration": 3,
            },
            {
                "type": "ReadyForProvisioning",
                "status": "True",
                "lastTransitionTime": "2026-11-18T12:00:00Z",
                "reason": "AttributesSetSuccessfully",
                "message": "ready",
            },
        ],
    }


def test_times_of_transitions_stay_while_the_status_stays() -> None:
    before = {"type": "ReadyForProvisioning", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
    buffer = upstream({"conditions": [before]}, **SCALABLE, replicas=5)
    made = translate_capacity_buffer(buffer, target_facts(), SETTINGS)
    [quotas, ready] = build_capacity_status(buffer, made, None, NOON)["conditions"]
    assert ready["lastTransitionTime"] == "2026-11-01T00:00:00Z"
    assert quotas["lastTransitionTime"] == "2026-11-18T12:00:00Z"
    assert (quotas["status"], quotas["message"]) == ("False", "")
    turned = upstream({"conditions": [{**before, "status": "False"}]}, **SCALABLE, replicas=5)
    [_, ready] = build_capacity_status(turned, made, None, NOON)["conditions"]
    assert ready["lastTransitionTime"] == "2026-11-18T12:00:00Z"


def test_the_limit_of_chunks_applies_to_capacity_buffers() -> None:
    made = translate_capacity_buffer(upstream(**SCALABLE, replicas=50), target_facts(), BufferSettings(most_chunks=10))
    assert (made.requested, made.chunks) == (50, 10)
    [_, ready] = build_capacity_status(upstream(), made, None, NOON)["conditions"]
    assert ready["message"] == "limited from 50 to 10 replicas, the maximum of one buffer"


def test_other_strategies_are_not_served() -> None:
    assert is_served(upstream())
    assert is_served(upstream(provisioningStrategy=""))
    assert is_served(upstream(provisioningStrategy="buffer.x-k8s.io/active-capacity"))
    assert not is_served(upstream(provisioningStrategy="buffer.gke.io/standby-capacity"))


def test_names_of_managed_templates_never_collide() -> None:
    long = ["x" * 250 + end for end in "ab"]
    names = {managed_template_name(name) for name in long}
    assert len(names) == 2
    assert all(len(name) <= 253 and name.endswith("-pod-template") for name in names)


def test_a_buffer_is_exported_as_a_capacity_buffer_with_a_template() -> None:
    spec = a_spec(app(cpu="1"), initContainers=[app("init", cpu="1")], priority=7, priorityClassName="high")
    facts = export_buffer("web", translated(replica_buffer(exactly=3), target_facts(spec=spec)))
    assert facts is not None
    name = facts.template["metadata"]["name"]
    assert facts.spec == {
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        "podTemplateRef": {"name": name},
        "replicas": 3,
    }
    assert name != managed_template_name("web")
    template = convert_object(facts.template, PodTemplate).template
    assert template.metadata.labels == {"app": "web", "pod-template-hash": "abc"}
    assert template.spec.priority is None
    written = facts.template["template"]["spec"]
    assert all(container["image"] for container in (*written["containers"], *written["initContainers"]))


def test_dedicated_and_scheduled_buffers_are_exported_as_a_number() -> None:
    pods = {"pods": {"replicaNum": 3, "podSpec": a_spec()}}
    own = buffer(capacity=pods, recreationStrategy="KeepMinimum", podSelector={"matchLabels": {"a": "b"}})
    dedicated = export_buffer("web", translated(own, TranslationFacts(filled={"cpu": 1_000, "memory": 2**40})))
    assert dedicated is not None
    assert dedicated.spec["replicas"] == 1
    closed = {"windows": [{"start": "0 0 1 1 *", "duration": "1h"}]}
    outside = export_buffer("web", translated(buffer(capacity=pods, schedule=closed)))
    assert outside is not None
    assert outside.spec["replicas"] == 0
    assert export_buffer("web", translated(replica_buffer(exactly=1))) is None


def test_a_pod_of_the_template_meets_the_restricted_pod_security_standard() -> None:
    requests = {"cpu": "1", "example.com/gpu": "2"}
    first = {"name": "app", "resources": {"requests": requests}}
    spec = a_spec(first, app("helper"), resources={"requests": {"memory": "1Gi"}})
    reason = export_buffer("web", translated(replica_buffer(exactly=1), target_facts(spec=spec)))
    assert reason is not None
    written = reason.template["template"]["spec"]
    first, second = written["containers"]
    assert first["resources"] == {"requests": requests, "limits": requests}
    assert second["resources"] == {}
    assert written["resources"]["limits"] == {"memory": "1Gi"}
    assert all(pod["securityContext"]["allowPrivilegeEscalation"] is False for pod in (first, second))
    assert written["securityContext"]["runAsNonRoot"] is True
