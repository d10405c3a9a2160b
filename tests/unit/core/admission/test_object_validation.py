"""May a VerticalPodAutoscaler, Hvpa or Buffer be stored?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from trellis.api.feature_gates import FeatureGates
from trellis.base.errors import InvalidReview
from trellis.core.admission.object_validation import (
    OBJECT_ACCEPTED,
    OBJECT_DEFAULTED,
    OBJECT_NOT_CHECKED,
    OBJECT_REFUSED,
    ObjectAdmissionDecision,
    review_object,
)
from trellis.core.admission.reviews import AdmissionReview, read_review

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
RECREATE = {"updateMode": "Recreate"}
BOOST = {"cpu": {"type": "Factor", "factor": 2}}
NO_BOOST = FeatureGates(cpu_startup_boost=False)


def vpa(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"targetRef": TARGET, "updatePolicy": RECREATE, **spec},
    }


def asked(document: Any, old: Any = None, **request: Any) -> AdmissionReview:
    group, _, version = document["apiVersion"].rpartition("/")
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": group, "version": version, "kind": document["kind"]},
            "name": "web",
            "operation": "UPDATE" if old else "CREATE",
            "object": document,
            "oldObject": old,
            **request,
        },
    }
    return read_review(json.dumps(body).encode())


def judged(
    document: Any, old: Any = None, gates: FeatureGates | None = None, **request: Any
) -> ObjectAdmissionDecision:
    return review_object(asked(document, old, **request), gates or FeatureGates())


def test_a_vpa_without_a_policy_is_stored_in_mode_recreate() -> None:
    document = vpa()
    del document["spec"]["updatePolicy"]
    verdict = judged(document)
    assert verdict.reason is OBJECT_DEFAULTED
    assert [(op.op, op.path, op.value) for op in verdict.patch] == [("add", "/spec/updatePolicy", RECREATE)]


def test_a_sound_vpa_is_stored_as_it_came() -> None:
    assert judged(vpa()) == ObjectAdmissionDecision(OBJECT_ACCEPTED)


def test_a_refusal_names_the_object_the_field_the_value_and_the_rule() -> None:
    verdict = judged(vpa(updatePolicy={"updateMode": "Recreate", "minReplicas": 0}))
    assert verdict.reason is OBJECT_REFUSED
    assert verdict.refusal is not None
    assert verdict.refusal.message.startswith(
        'VerticalPodAutoscaler.autoscaling.k8s.io "web" is invalid: spec.updatePolicy.minReplicas: Invalid value: 0: '
    )
    assert [cause.field for cause in verdict.refusal.details.causes] == ["spec.updatePolicy.minReplicas"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"updatePolicy": {"updateMode": "Recreate", "minReplicas": 0}}, "FieldValueInvalid"),
        ({"updatePolicy": {"updateMode": "Sometimes"}}, "FieldValueNotSupported"),
        ({"updatePolicy": {"updateMode": False}}, "FieldValueTypeInvalid"),
        ({"resourcePolicy": {"containerPolicies": [{"containerName": ""}]}}, "FieldValueRequired"),
        ({"recommenders": [{"name": "a"}, {"name": "b"}]}, "FieldValueTooMany"),
        ({"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "quantity": "1"}}}, "FieldValueForbidden"),
    ],
)
def test_a_refusal_has_the_cause_for_tools_as_the_api_server_does(spec: dict[str, Any], reason: str) -> None:
    refusal = judged(vpa(**spec)).refusal
    assert refusal is not None
    assert [cause.reason for cause in refusal.details.causes] == [reason]


@pytest.mark.parametrize("written", [{"cpu": "50m"}, ["50m"], "50 milli", "", True])
def test_what_is_no_quantity_is_refused_in_the_words_that_upstreams_users_look_for(written: Any) -> None:
    policy = {"containerName": "*", "minAllowed": {"requests": written}}
    refusal = judged(vpa(resourcePolicy={"containerPolicies": [policy]})).refusal
    assert refusal is not None
    assert "spec.resourcePolicy.containerPolicies[0].minAllowed[requests]: Invalid value: " in refusal.message
    assert "quantities must match the regular expression '^([+-]?[0-9.]+)" in refusal.message


def test_several_errors_are_reported_at_once() -> None:
    policy = {"containerName": "", "mode": "Never"}
    verdict = judged(vpa(resourcePolicy={"containerPolicies": [policy]}, recommenders=[{"name": "a"}, {"name": "b"}]))
    assert verdict.refusal is not None
    message = verdict.refusal.message
    assert "containerPolicies[0].containerName" in message
    assert "containerPolicies[0].mode" in message
    assert "spec.recommenders" in message


def test_an_old_mode_is_stored_with_a_warning() -> None:
    verdict = judged(vpa(updatePolicy={"updateMode": "Auto"}))
    assert verdict.reason is OBJECT_ACCEPTED
    assert any("deprecated" in warning for warning in verdict.warnings)


def test_an_unknown_field_is_left_to_the_api_server_and_reported() -> None:
    verdict = judged(vpa(targetReference={}))
    assert verdict.refusal is None
    assert any("spec.targetReference" in warning for warning in verdict.warnings)


def test_names_and_labels_are_left_to_the_api_server() -> None:
    document = vpa()
    document["metadata"]["name"] = "Not A Name"
    assert judged(document) == ObjectAdmissionDecision(OBJECT_ACCEPTED)


BROKEN = {"containerName": "app", "minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1"}}


def test_rules_a_stored_object_already_breaks_do_not_block_changes_of_other_fields() -> None:
    stored = vpa(resourcePolicy={"containerPolicies": [BROKEN]})
    assert judged(stored).refusal is not None
    # Its fault may even move to another place in the list.
    other = {"containerName": "proxy"}
    changed = vpa(resourcePolicy={"containerPolicies": [other, BROKEN]}, updatePolicy={"updateMode": "Off"})
    verdict = judged(changed, stored)
    assert verdict.refusal is None
    assert any("allowed only because the stored object has it too" in warning for warning in verdict.warnings)


def test_a_new_error_beside_a_stored_one_is_refused_and_is_all_that_is_reported() -> None:
    stored = vpa(resourcePolicy={"containerPolicies": [BROKEN]})
    worse = vpa(resourcePolicy={"containerPolicies": [BROKEN, {**BROKEN, "containerName": "proxy"}]})
    verdict = judged(worse, stored)
    assert verdict.refusal is not None
    assert len(verdict.refusal.details.causes) == 1


def test_an_object_that_is_being_deleted_is_never_refused() -> None:
    leaving = vpa(resourcePolicy={"containerPolicies": [BROKEN]})
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []}
    assert judged(leaving, vpa()) == ObjectAdmissionDecision(OBJECT_NOT_CHECKED)


@pytest.mark.req("SB-43")
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"startupBoost": BOOST}, "spec.startupBoost"),
        (
            {"resourcePolicy": {"containerPolicies": [{"containerName": "app", "startupBoost": BOOST}]}},
            "spec.resourcePolicy.containerPolicies[0].startupBoost",
        ),
    ],
    ids=["pod", "container"],
)
def test_with_the_gate_off_a_new_boost_is_refused_and_the_message_names_the_gate(
    spec: dict[str, Any], field: str
) -> None:
    assert judged(vpa(**spec)).refusal is None
    verdict = judged(vpa(**spec), gates=NO_BOOST)
    assert verdict.refusal is not None
    assert f"{field}: Forbidden" in verdict.refusal.message
    assert "feature gate CPUStartupBoost" in verdict.refusal.message


@pytest.mark.req("SB-44")
def test_with_the_gate_off_a_stored_boost_may_stay_but_none_be_added() -> None:
    stored = vpa(startupBoost=BOOST)
    assert judged(vpa(startupBoost=BOOST, updatePolicy={"updateMode": "Off"}), stored, NO_BOOST).refusal is None
    assert judged(vpa(startupBoost=BOOST), vpa(), NO_BOOST).refusal is not None


@pytest.mark.req("SB-42")
def test_with_the_gate_on_as_it_is_by_default_a_boost_is_accepted() -> None:
    assert judged(vpa(startupBoost=BOOST)) == ObjectAdmissionDecision(OBJECT_ACCEPTED)


HVPA = {
    "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
    "kind": "Hvpa",
    "metadata": {"name": "web"},
    "spec": {"targetRef": TARGET, "buckets": []},
}
BUFFER = {
    "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
    "kind": "Buffer",
    "metadata": {"name": "room"},
    "spec": {"capacity": {}},
}


@pytest.mark.parametrize(("document", "field"), [(HVPA, "spec.buckets"), (BUFFER, "spec.capacity")])
def test_our_other_kinds_are_judged_by_the_same_validator(document: dict[str, Any], field: str) -> None:
    verdict = judged(document)
    assert verdict.refusal is not None
    assert field in verdict.refusal.message


def test_other_kinds_other_versions_and_statuses_are_left_alone() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {}}
    old_version = vpa(targetRef=None) | {"apiVersion": "autoscaling.k8s.io/v1beta2"}
    for verdict in (judged(deployment), judged(old_version), judged(vpa(targetRef=None), subResource="status")):
        assert verdict == ObjectAdmissionDecision(OBJECT_NOT_CHECKED)


def test_a_deletion_has_no_object_and_is_left_alone() -> None:
    verdict = review_object(asked(vpa(), object=None, operation="DELETE"), FeatureGates())
    assert verdict == ObjectAdmissionDecision(OBJECT_NOT_CHECKED)


@pytest.mark.parametrize("spec", [None, [], "text", {"updatePolicy": 3}, {"resourcePolicy": {"containerPolicies": {}}}])
def test_an_object_of_the_wrong_shape_is_refused_not_stumbled_over(spec: Any) -> None:
    verdict = judged({**vpa(), "spec": spec})
    assert verdict.refusal is not None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "has no request"),
        (b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {}}', "must be an"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 7}}', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_an_invalid_review_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(InvalidReview, match=why):
        read_review(body)
