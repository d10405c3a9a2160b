"""What an Hvpa is refused for, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.manifests import ONLY_HORIZONTAL, STORY_1, STORY_2, bucket, errors, hvpa, warnings


@pytest.mark.req("HV-03", "HV-09")
def test_the_proposals_buckets_are_accepted() -> None:
    for buckets in ((STORY_1,), STORY_2, ONLY_HORIZONTAL, (bucket((2, 5), ("3", "6"), ("2.5G", "7G")),)):
        assert errors(hvpa(*buckets)) == []


@pytest.mark.req("HV-03")
@pytest.mark.parametrize("missing", ["replicas", "cpu", "memory"])
def test_a_bucket_has_a_range_of_each(missing: str) -> None:
    incomplete = {name: value for name, value in STORY_1.items() if name != missing}
    assert errors(hvpa(incomplete)) == [f"spec.buckets[0].{missing}: Required value: {missing} must be given"]
    assert errors(hvpa({**STORY_1, missing: {"min": 1}})) == [
        f"spec.buckets[0].{missing}.max: Required value: max must be given"
    ]


@pytest.mark.req("HV-01")
def test_buckets_are_the_only_way_to_say_how_to_scale() -> None:
    for field in ("weightBasedScalingIntervals", "vpaWeight"):
        (line,) = errors(hvpa(STORY_1, **{field: 50}))
        assert "Unknown field" in line


@pytest.mark.req("HV-35")
def test_at_least_one_bucket_is_needed() -> None:
    document = hvpa()
    document["spec"]["buckets"] = []
    assert errors(document) == ["spec.buckets: Invalid value: []: must have at least 1 item"]
    del document["spec"]["buckets"]
    assert errors(document) == ["spec.buckets: Required value: buckets must be given"]


def test_there_are_at_most_sixteen_buckets() -> None:
    many = [bucket((n, n), (n, n), (n, n)) for n in range(1, 18)]
    assert errors(hvpa(*many)) == ["spec.buckets: Too many: 17: must have at most 16 items"]
    assert errors(hvpa(*many[:16])) == []


@pytest.mark.req("HV-35")
@pytest.mark.parametrize(("first", "second"), [((1, 4), (4, 8)), ((1, 4), (3, 8)), ((5, 8), (1, 4)), ((1, 4), (1, 4))])
def test_replica_ranges_must_ascend_without_overlap(first: tuple[int, int], second: tuple[int, int]) -> None:
    document = hvpa(bucket(first, ("0", "1"), ("0", "1G")), bucket(second, ("1", "9"), ("1G", "9G")))
    (line,) = errors(document)
    assert line.startswith("spec.buckets[1].replicas.min: Invalid value")
    assert "must be above replicas.max of the bucket before" in line


@pytest.mark.req("HV-35")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"replicas": {"min": 3, "max": 2}}, "replicas"),
        ({"cpu": {"min": "2", "max": "1"}}, "cpu"),
        ({"memory": {"min": "2G", "max": "1Gi"}}, "memory"),
    ],
)
def test_a_minimum_above_its_maximum_is_refused(change: dict[str, Any], field: str) -> None:
    (line,) = errors(hvpa({**STORY_1, **change}))
    assert line.startswith(f"spec.buckets[0].{field}.max: Invalid value")


@pytest.mark.req("HV-35")
@pytest.mark.parametrize("low", [0, -1])
def test_a_bucket_begins_at_one_replica(low: int) -> None:
    (line,) = errors(hvpa({**STORY_1, "replicas": {"min": low, "max": 8}}))
    assert line == f"spec.buckets[0].replicas.min: Invalid value: {low}: must be greater than or equal to 1"


@pytest.mark.req("HV-35")
@pytest.mark.parametrize("negative", ["-1", "-500m", -1])
def test_a_negative_amount_is_refused(negative: Any) -> None:
    (line,) = errors(hvpa({**STORY_1, "cpu": {"min": negative, "max": "1"}}))
    assert line.startswith("spec.buckets[0].cpu.min: Invalid value")


@pytest.mark.req("HV-35")
def test_totals_that_fall_from_one_count_to_the_next_are_refused() -> None:
    falling_maximum = hvpa(bucket((1, 2), ("0", "10"), ("0", "10G")), bucket((3, 4), ("0", "1"), ("0", "20G")))
    assert errors(falling_maximum) == [
        'spec.buckets[1].cpu.max: Invalid value: "1": the largest total must not be lower than in the bucket before'
    ]
    # The memory maximum of three replicas is 3 x 5G, above the 2 x 5G before; its minimum is 0, below 2 x 4G.
    falling_minimum = hvpa(bucket((1, 2), ("0", "1"), ("4G", "5G")), bucket((3, 3), ("1", "2"), ("0", "5G")))
    assert errors(falling_minimum) == [
        'spec.buckets[1].memory.min: Invalid value: "0": the smallest total must not be lower than in the bucket before'
    ]


@pytest.mark.req("HV-35")
@pytest.mark.parametrize("name", ["cpu", "memory"])
@pytest.mark.parametrize(
    ("low", "high", "field"), [((0, 10), (0, 1), "max"), ((4, 5), (0, 15), "min"), ((0, 10), (0, 6), "max")]
)
def test_totals_of_either_resource_must_not_fall(
    name: str, low: tuple[int, int], high: tuple[int, int], field: str
) -> None:
    """In the last case the highest total of the later bucket is higher, and that of its first count is not."""
    other = "memory" if name == "cpu" else "cpu"
    spans = [{name: low, other: (0, 1)}, {name: high, other: (1, 9)}]
    first, second = (
        bucket(counts, span["cpu"], span["memory"]) for counts, span in zip(((1, 2), (3, 5)), spans, strict=True)
    )
    (line,) = errors(hvpa(first, second))
    assert line.startswith(f"spec.buckets[1].{name}.{field}: Invalid value")


@pytest.mark.req("HV-35")
def test_an_hpa_narrower_than_the_buckets_is_refused() -> None:
    def with_bounds(**bounds: int) -> list[str]:
        return errors(hvpa(STORY_1, hpa={"deploy": True, "template": {"spec": bounds}}))

    assert with_bounds(minReplicas=1, maxReplicas=16) == []
    assert with_bounds(minReplicas=2, maxReplicas=7) == [
        "spec.hpa.template.spec.minReplicas: Invalid value: 2: must not be above the first bucket's replicas.min, 1",
        "spec.hpa.template.spec.maxReplicas: Invalid value: 7: must not be below the last bucket's replicas.max, 8",
    ]


@pytest.mark.req("HV-32")
def test_templates_are_kept_as_written_whatever_they_say_further() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 120}}}
    assert errors(hvpa(hpa={"template": {"spec": {"maxReplicas": 8, "metrics": [metric], "behavior": {}}}})) == []


@pytest.mark.req("HV-37")
def test_a_vpa_template_accepts_boost_and_requirements_and_no_mode() -> None:
    up = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    good = {
        "startupBoost": {"cpu": {"type": "Factor", "factor": 2}},
        "updatePolicy": {"actuationRequirements": [up], "minReplicas": 1},
    }
    assert errors(hvpa(vpa={"template": {"spec": good}})) == []
    for field, value in (("updateMode", "Auto"), ("evictionRequirements", [up]), ("evictAfterOOMSeconds", 5)):
        (line,) = errors(hvpa(vpa={"template": {"spec": {"updatePolicy": {field: value}}}}))
        assert line.startswith(f"spec.vpa.template.spec.updatePolicy.{field}: Forbidden")
    (line,) = errors(hvpa(vpa={"template": {"spec": {"updatePolicy": {"actuationRequirements": [up, up]}}}}))
    assert "Duplicate value" in line


def test_templates_have_no_targets_of_their_own() -> None:
    assert errors(hvpa(hpa={"template": {"spec": {"scaleTargetRef": {"name": "web"}}}})) == [
        "spec.hpa.template.spec.scaleTargetRef: Forbidden: is set by the Hvpa and must not be given"
    ]
    assert errors(hvpa(vpa={"template": {"spec": {"targetRef": {}}}})) == [
        "spec.vpa.template.spec.targetRef: Forbidden: is set by the Hvpa and must not be given"
    ]


@pytest.mark.parametrize("text", ["250000-0000", "2200-0000", "22:00:00Z", "220000", "220060-0000", "220000-1500"])
def test_a_maintenance_window_is_given_in_its_own_form(text: str) -> None:
    (line,) = errors(hvpa(maintenanceWindow={"begin": text, "end": "230000-0000"}))
    assert line.startswith("spec.maintenanceWindow.begin: ")


def test_percentages_are_percentages() -> None:
    assert errors(hvpa(scaleDown={"minChangePercent": 0, "overlapPercent": 100})) == []
    assert len(errors(hvpa(scaleDown={"minChangePercent": -1, "overlapPercent": 101}))) == 2


def test_gaps_between_buckets_are_reported_and_not_refused() -> None:
    document = hvpa(*STORY_2)
    assert errors(document) == []
    messages = warnings(document)
    assert "CPU between 1 and 2 in total is in the gap between two buckets" in messages[0]
    assert "memory between 2G and 4G in total is in the gap between two buckets" in messages[1]
    skipped = hvpa(bucket((1, 1), ("0", "1"), ("0", "1G")), bucket((3, 4), ("0", "9"), ("0", "9G")))
    assert "leaves a gap: no bucket has the replica count 2" in warnings(skipped)[0]


def test_a_missing_maintenance_window_is_reported_where_used() -> None:
    (line,) = warnings(hvpa(scaleDown={"updateMode": "MaintenanceWindow"}))
    assert line.startswith("spec.scaleDown.updateMode: requires spec.maintenanceWindow")
    window = {"begin": "220000-0000", "end": "230000-0000"}
    assert warnings(hvpa(scaleDown={"updateMode": "MaintenanceWindow"}, maintenanceWindow=window)) == []
