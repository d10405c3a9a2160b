"""Objects by condition, and components that they lack."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.installations.facts import DAY, NOW, conditions, installation, vpa
from trellis.base.reasons import Reason
from trellis.diagnosis.checks import objects
from trellis.diagnosis.checks.objects import BUFFER, HVPA_KIND, VPA, ObjectFact, check_objects, count_conditions
from trellis.diagnosis.findings import ClusterCheck
from trellis.diagnosis.installation import list_component_states
from trellis.diagnosis.unread import Unread

ALL = ("recommender", "admission", "updater", "hvpa", "buffers", "nodes")


def check(kind: str, *listed: ObjectFact, components: tuple[str, ...] = ALL) -> ClusterCheck:
    states = list_component_states(installation(*components), NOW)
    return check_objects({kind: listed}, states, is_known=True)


def other(name: str, **statuses: str) -> ObjectFact:
    return ObjectFact("shop", name, conditions(**statuses), age=DAY)


def test_objects_in_good_condition_give_no_finding() -> None:
    assert check(VPA, vpa()).findings == ()
    assert check(HVPA_KIND, other("web", Active="True")).findings == ()
    assert check(BUFFER, other("web", ReadyForProvisioning="True", Provisioned="True")).findings == ()


@pytest.mark.parametrize(
    ("kind", "item", "reason"),
    [
        (VPA, vpa(RecommendationProvided="False"), objects.VPAS_WITHOUT_RECOMMENDATION),
        (VPA, vpa(RecommendationProvided="True", ConfigUnsupported="True"), objects.VPAS_UNSUPPORTED),
        (VPA, vpa(RecommendationProvided="True", ConflictingVPA="True"), objects.VPAS_CONFLICT),
        (VPA, vpa(RecommendationProvided="True", RecommenderFailed="True"), objects.VPAS_FAILED),
        (HVPA_KIND, other("web", Active="False"), objects.HVPAS_INACTIVE),
        (BUFFER, other("web", ReadyForProvisioning="False"), objects.BUFFERS_NOT_TRANSLATED),
        (BUFFER, other("web", ReadyForProvisioning="True", Provisioned="False"), objects.BUFFERS_NOT_PROVISIONED),
    ],
)
def test_a_bad_condition_is_found_with_the_command_that_explains_it(
    kind: str, item: ObjectFact, reason: Reason
) -> None:
    (finding,) = check(kind, item).findings
    assert finding.reason is reason
    assert finding.action.startswith(f"trellis explain {finding.message.partition('/')[0]}/web -n shop")


def test_many_objects_in_one_condition_are_one_finding_with_an_example() -> None:
    items = [vpa(f"web-{number}", RecommendationProvided="False") for number in range(3)]
    (finding,) = check(VPA, *items).findings
    assert finding.message.startswith("3 VPAs have no recommendation, such as shop/web-0")


def test_an_object_with_two_bad_conditions_is_counted_once() -> None:
    (finding,) = check(VPA, vpa(RecommendationProvided="False", ConfigUnsupported="True")).findings
    assert finding.reason is objects.VPAS_UNSUPPORTED


def test_a_vpa_without_pods_or_without_time_to_be_served_needs_no_attention() -> None:
    young = replace(vpa(RecommendationProvided="False"), age=60.0)
    assert check(VPA, young, vpa("idle", RecommendationProvided="False", NoPodsMatched="True")).findings == ()


@pytest.mark.parametrize(
    ("kind", "item", "missing"),
    [
        (VPA, vpa(mode="Off"), "recommender"),
        (VPA, vpa(mode="Initial"), "admission"),
        (VPA, vpa(mode="Recreate"), "updater"),
        (HVPA_KIND, other("web", Active="True"), "hvpa"),
        (BUFFER, other("web", ReadyForProvisioning="True"), "buffers"),
    ],
)
def test_a_component_that_objects_need_is_missing(kind: str, item: ObjectFact, missing: str) -> None:
    others = tuple(component for component in ALL if component != missing)
    (finding,) = check(kind, item, components=others).findings
    assert (finding.reason, finding.subject) == (objects.COMPONENT_MISSING, missing)


def test_a_vpa_in_mode_off_needs_neither_admission_nor_updater() -> None:
    assert check(VPA, vpa(mode="Off"), components=("recommender",)).findings == ()


def test_unreadable_components_are_not_taken_for_missing_ones() -> None:
    states = list_component_states(installation("nodes"), NOW)
    assert check_objects({VPA: (vpa(),)}, states, is_known=False).findings == ()


def test_unreadable_objects_are_essential() -> None:
    result = check_objects({VPA: Unread("VPAs", "may not be read")}, (), is_known=True)
    assert result.unknown[0].is_essential


def test_objects_are_counted_by_state_each_once() -> None:
    listed = [
        vpa(),
        vpa("b", RecommendationProvided="False"),
        vpa("c", RecommendationProvided="False", NoPodsMatched="True"),
        vpa("d", RecommendationProvided="True", RecommenderFailed="True"),
    ]
    assert count_conditions(VPA, listed) == {"recommended": 1, "waiting": 1, "no pods": 1, "failed": 1}
    buffers = [other("a", Provisioned="True"), other("b", ReadyForProvisioning="True"), other("c")]
    assert count_conditions(BUFFER, buffers) == {"provisioned": 1, "ready": 1, "waiting": 1}
    assert count_conditions(HVPA_KIND, [other("a", Active="True"), other("b", Active="False")]) == {
        "active": 1,
        "inactive": 1,
    }


def test_an_installation_that_changes_nothing_needs_no_admission_controller() -> None:
    found = installation("recommender", "updater")
    idle = tuple(replace(item, flags={"read-only": "true"}) for item in found.workloads)
    for workloads, reasons in ((found.workloads, [objects.COMPONENT_MISSING]), (idle, [])):
        states = list_component_states(replace(found, workloads=workloads), NOW)
        result = check_objects({VPA: (vpa(),)}, states, is_known=True)
        assert [finding.reason for finding in result.findings] == reasons
