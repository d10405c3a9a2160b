"""What an Hvpa is refused for, by the API server alone, and what the controller tells of the rest."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.builders.refused_hvpas import REFUSALS
from support.cluster.hvpas import GROUP, Start, get_hvpa_status, hvpa, hvpa_controllers
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.waiting import until

BY_SERVER = sorted(name for name, refusal in REFUSALS.items() if refusal.in_crd)
BY_US = sorted(name for name, refusal in REFUSALS.items() if not refusal.in_crd)


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with hvpa_controllers(cluster, tmp_path) as start:
        yield start


@pytest.mark.req("HV-35")
@pytest.mark.parametrize("name", BY_SERVER)
def test_the_api_server_refuses_and_names_the_field(cluster: Cluster, name: str) -> None:
    refusal = REFUSALS[name]
    document = {**hvpa("web"), "spec": {**hvpa("web")["spec"], **refusal.spec}}
    with pytest.raises(Refused) as refused:
        cluster.api.send("POST", f"{GROUP}/namespaces/default/hvpas?dryRun=All", document)
    assert refused.value.status == http.client.UNPROCESSABLE_ENTITY
    # A rule over several fields names the object that has them.
    details: Any = refused.value.body["details"]
    result = [cause["field"] for cause in details["causes"]]
    assert any(refusal.field.startswith(field) for field in result), result


@pytest.mark.req("HV-35")
def test_what_the_api_server_cannot_judge_the_controller_tells(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    for index, name in enumerate(BY_US):
        document = hvpa(f"bad-{index}")
        document["spec"] |= REFUSALS[name].spec
        cluster.api.create(document, namespace)
    controller(namespace)
    for index, name in enumerate(BY_US):

        def messages(which: str = f"bad-{index}") -> list[str]:
            conditions = get_hvpa_status(cluster, namespace, which).get("conditions", [])
            return [condition["message"] for condition in conditions if condition["reason"] == "HvpaRefused"]

        assert REFUSALS[name].field in until("the refusal", lambda: messages() or None)[0]
