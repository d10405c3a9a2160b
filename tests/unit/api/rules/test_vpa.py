"""What a VerticalPodAutoscaler is refused for, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.manifests import boosted, errors, policy, requirements, vpa, warnings
from trellis.api.feature_gates import FeatureGates

UP = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}


def test_a_plain_object_is_accepted() -> None:
    assert errors(vpa()) == []
    assert warnings(vpa()) == []


def test_without_spec_nothing_else_is_reported_about_it() -> None:
    assert errors(
        {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "x"}}
    ) == ["spec: Required value: spec must be given"]


def test_target_is_required_with_kind_and_name() -> None:
    document = vpa()
    document["spec"] = {}
    assert errors(document) == ["spec.targetRef: Required value: targetRef must be given"]
    assert errors(vpa(targetRef={"apiVersion": "apps/v1"})) == [
        "spec.targetRef.kind: Required value: kind must be given",
        "spec.targetRef.name: Required value: name must be given",
    ]


def test_all_problems_are_reported_together() -> None:
    document = vpa(
        updatePolicy={"updateMode": "Sometimes", "minReplicas": 0},
        recommenders=[{}, {"name": "b"}],
        startupBoost={"cpu": {"type": "Factor"}},
        surprise=1,
    )
    assert errors(document) == [
        'spec.updatePolicy.updateMode: Unsupported value: "Sometimes": supported values: "Off", "Initial", "Recreate", '
        '"InPlaceOrRecreate", "InPlace", "InPlaceOnly", "Auto"',
        "spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive",
        "spec.recommenders: Too many: 2: must have at most 1 item",
        "spec.recommenders[0].name: Required value: name must be given",
        "spec.startupBoost.cpu.factor: Required value: required when type is Factor",
        'spec.surprise: Unknown field: there is no field "surprise" here',
    ]


def test_a_typo_gets_the_nearest_field_as_a_suggestion() -> None:
    (line,) = errors(vpa(updatePolicy={"updateMode": "Off", "minReplica": 2}))
    assert line.endswith('(did you mean "minReplicas"?)')
    (line,) = errors(vpa(updatePolicy={"updateMode": "InplaceOrRecreate"}))
    assert line.endswith('(did you mean "InPlaceOrRecreate"?)')


@pytest.mark.parametrize(
    ("value", "actual"),
    [("Recreate", "string"), (["Recreate"], "array"), (3, "integer"), (True, "boolean"), (1.5, "number")],
)
def test_a_wrong_type_is_named(value: Any, actual: str) -> None:
    (line,) = errors(vpa(updatePolicy=value))
    assert line.startswith("spec.updatePolicy: Invalid value: ")
    assert line.endswith(f"must be of type object, not {actual}")


def test_null_means_absent_wherever_a_field_is_optional() -> None:
    document = vpa(updatePolicy=None, resourcePolicy=None, recommenders=None, startupBoost=None)
    assert errors(document) == []
    assert errors(vpa(targetRef=None)) == ["spec.targetRef: Required value: targetRef must be given"]
    assert errors(vpa(recommenders=[None])) == [
        "spec.recommenders[0]: Invalid value: null: must be of type object, not null"
    ]


# Customized recommenders


@pytest.mark.req("CR-04")
@pytest.mark.parametrize("entry", [{}, {"name": ""}, {"name": None}])
def test_a_recommender_without_a_name_is_refused(entry: dict[str, Any]) -> None:
    (line,) = errors(vpa(recommenders=[entry]))
    assert line.startswith("spec.recommenders[0].name: Required value")


@pytest.mark.req("CR-05")
@pytest.mark.parametrize("names", [("a", "b"), ("a", "a")])
def test_more_than_one_recommender_is_refused(names: tuple[str, str]) -> None:
    recommenders = [{"name": name} for name in names]
    assert errors(vpa(recommenders=recommenders)) == ["spec.recommenders: Too many: 2: must have at most 1 item"]
    assert errors(vpa(recommenders=recommenders), old=vpa()) == [
        "spec.recommenders: Too many: 2: must have at most 1 item"
    ]


@pytest.mark.req("CR-02")
@pytest.mark.parametrize("recommenders", [None, [], [{"name": "default"}]])
def test_no_recommender_and_default_are_accepted(recommenders: Any) -> None:
    assert errors(vpa(recommenders=recommenders)) == []


@pytest.mark.req("CR-03")
@pytest.mark.parametrize("recommenders", ["default", {"name": "default"}, ["default"]])
def test_recommenders_are_a_list_of_objects(recommenders: Any) -> None:
    (line,) = errors(vpa(recommenders=recommenders))
    assert "must be of type" in line


@pytest.mark.req("CR-07")
def test_parameters_are_text_in_limited_number_and_length() -> None:
    assert errors(vpa(recommenders=[{"name": "x", "parameters": {"percentile": "0.95"}}])) == []
    many = {f"p{number}": "1" for number in range(33)}
    assert errors(vpa(recommenders=[{"name": "x", "parameters": many}])) == [
        "spec.recommenders[0].parameters: Too many: 33: must have at most 32 entries"
    ]
    assert errors(vpa(recommenders=[{"name": "x", "parameters": {"a": 1, "b": "1" * 257}}])) == [
        "spec.recommenders[0].parameters[a]: Invalid value: 1: must be of type string, not integer",
        "spec.recommenders[0].parameters[b]: Too many: 257: must be at most 256 characters long",
    ]


# Actuation requirements


@pytest.mark.req("AR-01")
def test_both_members_of_a_requirement_are_required() -> None:
    assert errors(requirements({})) == [
        "spec.updatePolicy.actuationRequirements[0].resources: Required value: resources must be given",
        "spec.updatePolicy.actuationRequirements[0].changeRequirement: Required value: changeRequirement must be given",
    ]
    for member in UP:
        (line,) = errors(requirements({name: value for name, value in UP.items() if name != member}))
        assert line.startswith(f"spec.updatePolicy.actuationRequirements[0].{member}: Required value")
    assert errors(requirements(UP)) == []
    assert errors(requirements()) == []
    assert errors(vpa(updatePolicy={"updateMode": "Recreate"})) == []


@pytest.mark.req("AR-02")
@pytest.mark.parametrize("resources", [["cpu"], ["memory"], ["cpu", "memory"], ["memory", "cpu"], ["CPU", "Memory"]])
def test_both_spellings_of_resources_are_accepted(resources: list[str]) -> None:
    assert errors(requirements({**UP, "resources": resources})) == []


@pytest.mark.req("AR-02")
@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ([], "must have at least 1 item"),
        (["cpu", "cpu"], "must not be listed twice"),
        (["cpu", "CPU"], "must not be listed twice"),
        (["nvidia.com/gpu"], "supported values"),
        (["Cpu"], "supported values"),
    ],
)
def test_empty_repeated_and_other_resources_are_refused(resources: list[str], says: str) -> None:
    (line,) = errors(requirements({**UP, "resources": resources}))
    assert says in line


@pytest.mark.req("AR-03")
def test_four_change_requirements_are_accepted_and_no_other() -> None:
    for change in ("HigherThan", "HigherThanOrEqualTo", "LowerThan", "LowerThanOrEqualTo"):
        assert errors(requirements({**UP, "changeRequirement": f"Target{change}Requests"})) == []
    (line,) = errors(requirements({**UP, "changeRequirement": "TargetEqualToRequests"}))
    assert line.startswith("spec.updatePolicy.actuationRequirements[0].changeRequirement: Unsupported value")


@pytest.mark.req("AR-15")
def test_each_resource_may_have_its_own_direction() -> None:
    down = {"resources": ["memory"], "changeRequirement": "TargetLowerThanOrEqualToRequests"}
    assert errors(requirements(UP, down)) == []


@pytest.mark.req("AR-26", "AR-27")
@pytest.mark.parametrize("second", [["cpu"], ["CPU"], ["cpu", "memory"]])
@pytest.mark.parametrize("change", ["TargetHigherThanRequests", "TargetLowerThanRequests"])
def test_two_requirements_for_one_resource_are_refused_and_both_named(second: list[str], change: str) -> None:
    other = {"resources": second, "changeRequirement": change}
    for entries in ((UP, other), (other, UP)):
        (line,) = errors(requirements(*entries))
        assert line.startswith("spec.updatePolicy.actuationRequirements[1]: Duplicate value")
        assert "actuationRequirements[0] and actuationRequirements[1]" in line


@pytest.mark.req("AR-24")
def test_requirements_have_no_separate_controls_per_way_or_container() -> None:
    for field in ("containerName", "inPlace", "eviction"):
        (line,) = errors(requirements({**UP, field: "x"}))
        assert "Unknown field" in line


def test_eviction_requirements_are_refused_beside_actuation_requirements_and_lenient_alone() -> None:
    both = requirements(UP, evictionRequirements=[UP])
    assert errors(both) == [
        "spec.updatePolicy.evictionRequirements: Forbidden: "
        "is another spelling of actuationRequirements: give one of them"
    ]
    repeated = vpa(updatePolicy={"updateMode": "Recreate", "evictionRequirements": [UP, UP]})
    assert errors(repeated) == []
    assert any("is listed before" in line for line in warnings(repeated))


@pytest.mark.req("AR-18")
@pytest.mark.parametrize("mode", ["Off", "Initial"])
def test_requirements_in_a_mode_that_leaves_running_pods_alone_are_reported(mode: str) -> None:
    document = requirements(UP, updateMode=mode)
    assert errors(document) == []
    assert warnings(document) == [
        f"spec.updatePolicy.actuationRequirements: has no effect: the mode {mode} does not change running pods"
    ]


def test_upstreams_spelling_takes_resources_in_either_case() -> None:
    entry = {"resources": ["CPU"], "changeRequirement": "TargetHigherThanRequests"}
    assert warnings(vpa(updatePolicy={"updateMode": "Recreate", "evictionRequirements": [entry]})) == []


@pytest.mark.req("AR-23")
def test_in_place_only_is_a_mode() -> None:
    assert errors(vpa(updatePolicy={"updateMode": "InPlaceOnly"})) == []


# Startup boost


@pytest.mark.req("SB-08")
@pytest.mark.parametrize(
    ("cpu", "says"),
    [
        ({"factor": 2}, "spec.startupBoost.cpu.type: Required value"),
        ({"type": "", "factor": 2}, "spec.startupBoost.cpu.type: Unsupported value"),
        ({"type": "Percent", "factor": 2}, "spec.startupBoost.cpu.type: Unsupported value"),
        ({"type": "factor", "factor": 2}, 'did you mean "Factor"?'),
    ],
)
def test_boost_type_has_no_default_and_two_values(cpu: dict[str, Any], says: str) -> None:
    assert says in errors(boosted(**cpu))[0]


@pytest.mark.req("SB-09")
@pytest.mark.parametrize("factor", [0, -1, 2**31])
def test_factor_is_a_positive_int32(factor: int) -> None:
    (line,) = errors(boosted(type="Factor", factor=factor))
    assert line.startswith(f"spec.startupBoost.cpu.factor: Invalid value: {factor}: must be")


@pytest.mark.req("SB-10")
def test_factor_is_required_with_its_type() -> None:
    assert errors(boosted(type="Factor")) == [
        "spec.startupBoost.cpu.factor: Required value: required when type is Factor"
    ]


@pytest.mark.req("SB-11")
def test_factor_and_quantity_exclude_each_others_type() -> None:
    assert errors(boosted(type="Quantity", quantity="1", factor=2)) == [
        "spec.startupBoost.cpu.factor: Forbidden: only with type Factor, not with Quantity"
    ]
    assert errors(boosted(type="Factor", factor=2, quantity="1")) == [
        "spec.startupBoost.cpu.quantity: Forbidden: only with type Quantity, not with Factor"
    ]


@pytest.mark.req("SB-12")
@pytest.mark.parametrize("factor", ["500m", "2x", 1.5, "2", True])
def test_a_factor_that_is_not_an_integer_is_refused(factor: Any) -> None:
    (line,) = errors(boosted(type="Factor", factor=factor))
    assert line.startswith("spec.startupBoost.cpu.factor: Invalid value")
    assert "must be of type integer" in line


def test_a_factor_with_a_decimal_point_is_refused_with_advice() -> None:
    (line,) = errors(boosted(type="Factor", factor=2.0))
    assert line == "spec.startupBoost.cpu.factor: Invalid value: 2.0: must be written without a decimal point: 2"


@pytest.mark.req("SB-13")
def test_quantity_is_required_with_its_type_and_whole_milli_cpus() -> None:
    assert errors(boosted(type="Quantity")) == [
        "spec.startupBoost.cpu.quantity: Required value: required when type is Quantity"
    ]
    for good in ("500m", "1", 2, "0.5", "1500000u", "1e3"):
        assert errors(boosted(type="Quantity", quantity=good)) == []
    for bad in ("0.5m", "1500u", "100n"):
        (line,) = errors(boosted(type="Quantity", quantity=bad))
        assert line.endswith("must be a whole number of milli CPUs")
    for negative in ("-1", "-500m", -1):
        (line,) = errors(boosted(type="Quantity", quantity=negative))
        assert line.startswith("spec.startupBoost.cpu.quantity: Invalid value")


def test_a_number_beyond_64_bits_is_refused() -> None:
    for document in (policy(minAllowed={"memory": 2**63}), policy(memoryAggregationIntervalCount=2**63)):
        (line,) = errors(document)
        assert line.endswith("Invalid value: 9223372036854775808: must fit into 64 bits")
    assert errors(policy(minAllowed={"memory": 2**63 - 1})) == []


def test_an_unquoted_fraction_is_refused_with_advice() -> None:
    (line,) = errors(boosted(type="Quantity", quantity=0.5))
    assert 'write "0.5"' in line


@pytest.mark.req("SB-14")
def test_duration_is_optional_and_never_negative() -> None:
    assert errors(boosted(type="Factor", factor=2)) == []
    for good in ("0s", "10s", "2m", "1h30m"):
        assert errors(boosted(type="Factor", factor=2, duration=good)) == []
    for bad in ("-5s", "10", "soon", "1d", ""):
        (line,) = errors(boosted(type="Factor", factor=2, duration=bad))
        assert line.startswith("spec.startupBoost.cpu.duration: Invalid value")


def test_a_duration_that_would_overflow_is_refused() -> None:
    assert errors(boosted(type="Factor", factor=2, duration="9999999h")) != []
    assert errors(boosted(type="Factor", factor=2, duration="999999h999999h99h")) == []


def test_upstreams_spelling_of_the_duration_is_accepted_alone() -> None:
    assert errors(boosted(type="Factor", factor=2, durationSeconds=60)) == []
    assert errors(boosted(type="Factor", factor=2, durationSeconds=-1)) != []
    assert errors(boosted(type="Factor", factor=2, duration="60s", durationSeconds=60)) == [
        "spec.startupBoost.cpu.durationSeconds: Forbidden: means the same as duration: give one of them"
    ]


def test_giving_up_takes_at_least_a_second() -> None:
    assert errors(boosted(type="Factor", factor=2, giveUpAfterSeconds=1)) == []
    assert errors(boosted(type="Factor", factor=2, giveUpAfterSeconds=0)) != []


@pytest.mark.req("SB-03")
def test_there_is_no_boost_of_memory() -> None:
    document = vpa(startupBoost={"memory": {"type": "Factor", "factor": 2}})
    assert errors(document) == ['spec.startupBoost.memory: Unknown field: there is no field "memory" here']


@pytest.mark.req("SB-07")
def test_a_boost_without_cpu_is_accepted() -> None:
    assert errors(vpa(startupBoost={})) == []
    assert errors(policy(startupBoost={})) == []


def test_a_containers_boost_has_the_same_rules_as_the_pods() -> None:
    assert errors(policy(startupBoost={"cpu": {"type": "Factor"}})) == [
        "spec.resourcePolicy.containerPolicies[0].startupBoost.cpu.factor: Required value: required when type is Factor"
    ]


@pytest.mark.req("SB-42")
def test_boost_is_allowed_unless_its_gate_is_switched_off() -> None:
    document = boosted(type="Factor", factor=2)
    assert errors(document) == []
    (line,) = errors(document, gates=FeatureGates(cpu_startup_boost=False))
    assert line.startswith("spec.startupBoost: Forbidden")
    assert "feature gate CPUStartupBoost" in line


@pytest.mark.req("SB-44")
def test_a_stored_boost_may_be_updated_while_its_gate_is_off_and_none_added() -> None:
    off = FeatureGates(cpu_startup_boost=False)
    stored, edited = boosted(type="Factor", factor=2), boosted(type="Factor", factor=3)
    assert errors(edited, old=stored, gates=off) == []
    assert errors(policy(startupBoost=stored["spec"]["startupBoost"]), old=stored, gates=off) == []
    assert "CPUStartupBoost" in errors(edited, old=vpa(), gates=off)[0]
    of_a_container = policy(startupBoost=stored["spec"]["startupBoost"])
    assert "CPUStartupBoost" in errors(of_a_container, old=policy(mode="Off"), gates=off)[0]


def test_other_gates_refuse_new_uses_and_tolerate_stored_ones() -> None:
    in_place = vpa(updatePolicy={"updateMode": "InPlace"})
    assert "feature gate InPlace" in errors(in_place, gates=FeatureGates(in_place=False))[0]
    assert errors(in_place, old=in_place, gates=FeatureGates(in_place=False)) == []
    tuned = policy(oomBumpUpRatio="1.5", memoryAggregationIntervalCount=4)
    assert len(errors(tuned, gates=FeatureGates(per_vpa_config=False))) == 2
    assert errors(tuned, old=tuned, gates=FeatureGates(per_vpa_config=False)) == []


# Container policies, as upstream has them


def test_a_policy_names_its_container() -> None:
    (line,) = errors(policy(containerName=""))
    assert line == "spec.resourcePolicy.containerPolicies[0].containerName: Required value: must not be empty"


def test_maximum_below_minimum_is_refused_in_upstreams_words() -> None:
    document = policy(minAllowed={"cpu": "100"}, maxAllowed={"cpu": "10", "memory": "1Gi"})
    assert errors(document) == [
        'spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]: Invalid value: "10": '
        'max resource for cpu is lower than min of "100"'
    ]


def test_bounds_of_other_resources_are_ordered_too() -> None:
    (line,) = errors(policy(minAllowed={"example.com/gpu": "2"}, maxAllowed={"example.com/gpu": "1"}))
    assert line == (
        'spec.resourcePolicy.containerPolicies[0].maxAllowed[example.com/gpu]: Invalid value: "1": '
        'max resource for example.com/gpu is lower than min of "2"'
    )


def test_bounds_are_whole_milli_cpus_and_whole_bytes() -> None:
    document = policy(minAllowed={"cpu": "0.5m", "memory": "100m"}, maxAllowed={"example.com/gpu": "0.5"})
    assert errors(document) == [
        'spec.resourcePolicy.containerPolicies[0].minAllowed[cpu]: Invalid value: "0.5m": '
        "must be a whole number of milli CPUs",
        'spec.resourcePolicy.containerPolicies[0].minAllowed[memory]: Invalid value: "100m": '
        "must be a whole number of bytes",
    ]


def test_an_unscaled_container_has_no_limits_to_control() -> None:
    (line,) = errors(policy(mode="Off", controlledValues="RequestsAndLimits"))
    assert line.endswith("Forbidden: controlledValues shouldn't be specified if container scaling mode is off")
    assert errors(policy(mode="Off", controlledValues="RequestsOnly")) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("oomBumpUpRatio", "0.5"),
        ("oomMinBumpUp", "-1"),
        ("memoryAggregationIntervalSeconds", 0),
        ("memoryAggregationIntervalCount", 0),
        ("controlledResources", ["storage"]),
        ("mode", "On"),
    ],
)
def test_out_of_range_tuning_is_refused(field: str, value: Any) -> None:
    (line,) = errors(policy(**{field: value}))
    assert line.startswith(f"spec.resourcePolicy.containerPolicies[0].{field}")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("oomBumpUpRatio", "0.5", "0.5: must be greater than or equal to 1.0"),
        ("oomBumpUpRatio", "-1", "-1: must be greater than or equal to 1.0"),
        ("oomBumpUpRatio", "999m", "0.999: must be greater than or equal to 1.0"),
        ("oomBumpUpRatio", "0.9999", '"0.9999": must be greater than or equal to 1.0'),
        ("oomMinBumpUp", "-1Ki", "-1024: must be greater than or equal to 0"),
    ],
)
def test_invalid_oom_settings_are_refused_with_their_value(field: str, value: str, message: str) -> None:
    place = f"spec.resourcePolicy.containerPolicies[0].{field}"
    assert errors(policy(**{field: value})) == [f"{place}: Invalid value: {message}"]


@pytest.mark.parametrize("value", ["1Kg", "NaN", "", "1_000", "0x10", "one", "\u0661"])
def test_text_that_is_no_quantity_is_refused(value: str) -> None:
    (line,) = errors(policy(minAllowed={"cpu": value}))
    assert "must be a quantity" in line
    assert line.endswith("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")


@pytest.mark.parametrize("value", ["1e99999999999999999999", "-0", "1e-99999", "9" * 32])
def test_extreme_quantities_are_read_or_refused_but_never_hang(value: str) -> None:
    for line in errors(policy(minAllowed={"memory": value})):
        assert line.startswith("spec.resourcePolicy.containerPolicies[0].minAllowed[memory]: Invalid value")


# Warnings


@pytest.mark.req("SB-51")
def test_the_deprecated_mode_is_a_warning() -> None:
    document = vpa(updatePolicy={"updateMode": "Auto"})
    assert errors(document) == []
    assert warnings(document)[0].startswith('spec.updatePolicy.updateMode: "Auto" mode is deprecated')


def test_two_policies_for_one_container_are_a_warning() -> None:
    both = [{"containerName": "app"}, {"containerName": "app", "mode": "Off"}]
    (line,) = warnings(vpa(resourcePolicy={"containerPolicies": both}))
    assert "containerPolicies[0]: the first one is used" in line


def test_an_update_policy_without_a_mode_is_a_warning() -> None:
    (line,) = warnings(vpa(updatePolicy={"minReplicas": 2}))
    assert "Recreate is used" in line
