"""Autoscaling objects through a real API server: refused in the words of the one validator, defaulted, warned of.

What is stored already stays editable, whatever rule is newer than it.
"""

from __future__ import annotations

import pytest

from support.builders import manifests
from support.builders.manifests import boosted, bucket, hvpa, policy, replica_buffer, vpa
from support.cluster.admission import Start, wait_for_webhook_calls
from support.cluster.vpas import vpa_path
from testbed.client import APPLY_PATCH, Json
from testbed.cluster import Cluster
from testbed.errors import Refused

POLICY = "spec.resourcePolicy.containerPolicies[0]"
BOOST = "spec.startupBoost.cpu"
UPSIDE_DOWN = {"minAllowed": {"cpu": "100"}, "maxAllowed": {"cpu": "10"}}
LOWER = f'{POLICY}.maxAllowed[cpu]: Invalid value: "10": max resource for cpu is lower than min of "100"'

# What upstream refuses, in upstream's words.
UPSTREAMS: list[tuple[Json, str]] = [
    (policy(**UPSIDE_DOWN), LOWER),
    (
        policy(mode="Off", controlledValues="RequestsAndLimits"),
        f"{POLICY}.controlledValues: Forbidden: "
        "controlledValues shouldn't be specified if container scaling mode is off",
    ),
    (policy(mode="On"), f'{POLICY}.mode: Unsupported value: "On": supported values: "Auto", "Off"'),
    (
        policy(maxAllowed={"cpu": "1.0001"}),
        f'{POLICY}.maxAllowed[cpu]: Invalid value: "1.0001": must be a whole number of milli CPUs',
    ),
    (
        policy(minAllowed={"memory": "1m"}),
        f'{POLICY}.minAllowed[memory]: Invalid value: "1m": must be a whole number of bytes',
    ),
    (vpa(recommenders=[{"name": "a"}, {"name": "b"}]), "spec.recommenders: Too many: 2: must have at most 1 item"),
    (boosted(type="Factor"), f"{BOOST}.factor: Required value: required when type is Factor"),
    (boosted(type="Quantity"), f"{BOOST}.quantity: Required value: required when type is Quantity"),
    (
        boosted(type="Quantity", quantity="1u"),
        f'{BOOST}.quantity: Invalid value: "1u": must be a whole number of milli CPUs',
    ),
]
OURS: list[tuple[Json, str]] = [
    (
        hvpa(bucket((3, 2), ("0", "1"), ("0", "2G"))),
        "spec.buckets[0].replicas.max: Invalid value: 2: must not be below min, which is 3",
    ),
    (
        replica_buffer(),
        "spec.capacity.replicas: Required value: exactly one of exactly, percent must be given",
    ),
    (
        replica_buffer(exactly=-1),
        "spec.capacity.replicas.exactly: Invalid value: -1: must be greater than or equal to 0",
    ),
]


def create(cluster: Cluster, namespace: str, document: Json, name: str = "web") -> tuple[Json, list[str]]:
    """What the API server stored, and what it warned of."""
    path = cluster.api.get_path(document, namespace, named=False)
    return cluster.api.send_with_warnings("POST", path, document | {"metadata": {"name": name}})


def refusal(cluster: Cluster, namespace: str, document: Json) -> Refused:
    with pytest.raises(Refused) as error:
        create(cluster, namespace, document)
    return error.value


@pytest.mark.req("SB-09", "SB-42")
def test_objects_are_refused_defaulted_and_warned_of(cluster: Cluster, namespace: str, admission: Start) -> None:
    for factor in (0, -1):
        # Nobody but the schema is there to say no.
        refused = refusal(cluster, namespace, boosted(type="Factor", factor=factor))
        assert f"{BOOST}.factor: Invalid value: {factor}" in refused.message
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    for document, why in (*UPSTREAMS, *OURS):
        refused = refusal(cluster, namespace, document)
        webhook = "vpa.k8s.io" if document["kind"] == "VerticalPodAutoscaler" else "objects.autoscaling.x-k8s.io"
        group = document["apiVersion"].partition("/")[0]
        about = f'admission webhook "{webhook}" denied the request: {document["kind"]}.{group} "web" is invalid: '
        assert (refused.status, refused.reason) == (422, "Invalid")
        assert refused.message.startswith(about), refused.message
        assert why in refused.message
    for factor in (0, -1):
        assert (
            'admission webhook "vpa.k8s.io"'
            in refusal(cluster, namespace, boosted(type="Factor", factor=factor)).message
        )

    stored, warnings = create(cluster, namespace, vpa())
    assert (stored["spec"]["updatePolicy"], warnings) == ({"updateMode": "Recreate"}, [])
    # Server-side apply once more, as a pipeline does: what was defaulted is not fought over.
    again = cluster.api.send(
        "PATCH",
        f"{vpa_path(namespace, 'web')}?fieldManager=pipeline&force=true",
        vpa(resourcePolicy={"containerPolicies": [{"containerName": "*", "mode": "Off"}]}),
        APPLY_PATCH,
    )
    assert again["spec"]["updatePolicy"] == {"updateMode": "Recreate"}
    _, warnings = create(cluster, namespace, vpa(updatePolicy={"updateMode": "Auto"}), "auto")
    assert warnings == [manifests.warnings(vpa(updatePolicy={"updateMode": "Auto"}))[0]]
    for document in (hvpa(), replica_buffer(exactly=2), boosted(type="Quantity", quantity="1")):
        assert create(cluster, namespace, document, "good")[1] == []


def test_stored_objects_that_a_rule_would_refuse_can_be_edited_and_deleted(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    create(cluster, namespace, policy(**UPSIDE_DOWN))
    create(cluster, namespace, policy(**UPSIDE_DOWN) | {"metadata": {"name": "kept"}}, "kept")
    cluster.api.patch(vpa_path(namespace, "kept"), {"metadata": {"finalizers": ["example.com/kept"]}})
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    path = vpa_path(namespace, "web")
    changed, warnings = cluster.api.send_with_warnings(
        "PATCH", path, {"spec": {"updatePolicy": {"updateMode": "Off"}}}, "application/merge-patch+json"
    )
    assert changed["spec"]["updatePolicy"] == {"updateMode": "Off"}
    assert [warning.startswith(LOWER) and "allowed only because" in warning for warning in warnings] == [True]
    worse = policy(minAllowed={"cpu": "99"}, maxAllowed={"cpu": "9"})
    with pytest.raises(Refused, match=r"max resource for cpu is lower than min of"):
        cluster.api.patch(path, {"spec": worse["spec"]})
    # Mended, it cannot be broken again.
    cluster.api.patch(path, {"spec": {"resourcePolicy": None}})
    with pytest.raises(Refused, match=r"max resource for cpu is lower than min of"):
        cluster.api.patch(path, {"spec": policy(**UPSIDE_DOWN)["spec"]})
    cluster.api.delete(path)
    assert cluster.api.find(path) is None
    # Whoever waits for a finalizer is not kept by us.
    stored_path = vpa_path(namespace, "kept")
    cluster.api.delete(stored_path)
    cluster.api.patch(stored_path, {"metadata": {"finalizers": None}})
    assert cluster.api.find(stored_path) is None
