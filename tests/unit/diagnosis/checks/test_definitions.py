"""CRDs: present, established, up to date."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trellis.api.registry import BUFFER, KINDS, VPA, Kind
from trellis.api.schema.crds import build_crd
from trellis.diagnosis.checks import definitions
from trellis.diagnosis.checks.definitions import DefinitionFacts, check_definitions, find_missing_fields
from trellis.diagnosis.findings import ClusterFinding, Level
from trellis.diagnosis.unread import Unread


def schema_of(kind: Kind) -> dict[str, Any]:
    versions = build_crd(kind)["spec"]["versions"]
    return copy.deepcopy(next(item["schema"]["openAPIV3Schema"] for item in versions if item["name"] == kind.version))


def stored(kind: Kind, **changes: Any) -> DefinitionFacts:
    usual = {"stored_versions": (kind.version,), "schemas": {kind.version: schema_of(kind)}}
    return DefinitionFacts(f"{kind.plural}.{kind.group}", **{**usual, **changes})


def check(*changed: DefinitionFacts | str, installed: bool = True) -> tuple[ClusterFinding, ...]:
    """All CRDs as they should be, but for changed ones; a name is one that is missing."""
    by_name: dict[str, DefinitionFacts | None] = {f"{kind.plural}.{kind.group}": stored(kind) for kind in KINDS}
    by_name |= {item: None for item in changed if isinstance(item, str)}
    by_name |= {item.name: item for item in changed if isinstance(item, DefinitionFacts)}
    return check_definitions(by_name, is_installed=installed).findings


BUFFERS = f"{BUFFER.plural}.{BUFFER.group}"
VPAS = f"{VPA.plural}.{VPA.group}"


def test_crds_of_this_version_give_no_finding() -> None:
    assert check() == ()


@pytest.mark.parametrize("installed", [True, False])
def test_a_missing_crd_is_a_problem_where_its_kind_is_needed(installed: bool) -> None:
    assert [finding.reason for finding in check(VPAS, installed=installed)] == [definitions.DEFINITION_MISSING]
    assert bool(check(BUFFERS, installed=installed)) is installed


def test_before_an_installation_no_crd_is_missing() -> None:
    result = check_definitions({}, is_installed=False)
    assert (result.level, result.summary) == (Level.OK, "none installed yet")


def test_a_crd_without_new_fields_is_outdated_and_the_fields_are_named() -> None:
    schema = schema_of(VPA)
    del schema["properties"]["spec"]["properties"]["startupBoost"]
    (finding,) = check(stored(VPA, schemas={"v1": schema}))
    assert finding.reason is definitions.DEFINITION_OUTDATED
    assert finding.message == "lacks 1 field: spec.startupBoost"
    assert finding.action == "trellis crds | kubectl apply --server-side -f -"


def test_fields_inside_lists_are_compared_too() -> None:
    schema = schema_of(VPA)
    policies = schema["properties"]["spec"]["properties"]["resourcePolicy"]["properties"]["containerPolicies"]
    del policies["items"]["properties"]["controlledValues"]
    missing = find_missing_fields(VPA, stored(VPA, schemas={"v1": schema}))
    assert missing == ("spec.resourcePolicy.containerPolicies.controlledValues",)


def test_fields_that_only_the_stored_crd_has_are_no_difference() -> None:
    schema = schema_of(VPA)
    schema["properties"]["spec"]["properties"]["newer"] = {"type": "string"}
    assert check(stored(VPA, schemas={"v1": schema})) == ()


def test_a_crd_that_is_not_established_is_a_problem() -> None:
    (finding,) = check(stored(BUFFER, is_established=False, reason="names conflict"))
    assert (finding.reason, "names conflict" in finding.message) == (definitions.DEFINITION_NOT_ESTABLISHED, True)


def test_objects_stored_in_an_old_version_are_found() -> None:
    (finding,) = check(stored(VPA, stored_versions=("v1beta2", "v1")))
    assert (finding.reason, "v1beta2" in finding.message) == (definitions.OLD_VERSIONS_STORED, True)


def test_crds_that_may_not_be_read_are_unknown() -> None:
    assert check_definitions(Unread("CRDs", "may not be read"), is_installed=True).level is Level.UNKNOWN
