"""The oracle is alive, and says what Kubernetes is documented to say.

Every expectation here is a fact about Kubernetes, never one about Trellis: these tests show that the
oracle can be trusted where other tests compare Trellis with it.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from oracle.answers import Gvk
from support.oracles.kubernetes import Oracle, OracleError

ROPE = Gvk("oracle.test", "v1", "Rope")

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "min": {"type": "integer", "default": 1},
        "max": {"type": "integer"},
        "length": {"type": "integer"},
        "mode": {"type": "string", "enum": ["Taut", "Slack"]},
        "replicas": {"type": "integer"},
        "knots": {
            "type": "array",
            "maxItems": 10,
            "items": {"type": "string", "maxLength": 20},
            "x-kubernetes-list-type": "set",
        },
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.max) || self.min <= self.max", "message": "min must not exceed max"},
    ],
}

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ropes.oracle.test"},
    "spec": {
        "group": ROPE.group,
        "scope": "Namespaced",
        "names": {"plural": "ropes", "kind": ROPE.kind},
        "versions": [
            {
                "name": ROPE.version,
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": SPEC,
                            "status": {
                                "type": "object",
                                "properties": {
                                    "phase": {"type": "string", "enum": ["Ready"]},
                                    "replicas": {"type": "integer"},
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


def definition(**changed: Any) -> dict[str, Any]:
    """The definition, with properties of its spec replaced."""
    result = copy.deepcopy(DEFINITION)
    schema = result["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"].update(changed)
    return result


def rope(*, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{ROPE.group}/{ROPE.version}",
        "kind": ROPE.kind,
        "metadata": {"name": "rope"} | (metadata or {}),
        "spec": spec,
    }


@pytest.fixture(scope="module")
def ropes(oracle: Oracle) -> Oracle:
    loaded = oracle.load_crd(DEFINITION)
    assert loaded.ok, loaded.why
    return oracle


def test_it_speaks_for_kubernetes_1_36(oracle: Oracle) -> None:
    about = oracle.about()
    assert about.modules["k8s.io/apiextensions-apiserver"] == "v0.36.3"
    assert about.modules["k8s.io/apimachinery"] == "v0.36.3"
    assert about.rule_cost_limit == 10_000_000


class TestValues:
    @pytest.mark.parametrize(
        ("text", "canonical", "decimal"),
        [("0.5Mi", "512Ki", 524288), ("1e3", "1e3", 1000), ("1500m", "1500m", 1.5), ("0.1n", "1n", 1e-9)],
    )
    def test_a_quantity_prints_in_its_canonical_form(
        self, oracle: Oracle, text: str, canonical: str, decimal: float
    ) -> None:
        answer = oracle.quantity(text)
        assert answer.canonical == canonical
        assert float(answer.decimal) == decimal

    def test_a_batch_answers_in_order_and_refuses_one_by_one(self, oracle: Oracle) -> None:
        good, bad, negative = oracle.quantities(["9007199254740993", "1 Gi", "-1"])
        assert (good.ok, good.value) == (True, 9007199254740993)  # 2^53 + 1: a float would lose the 1
        assert (bad.ok, bad.errors[0].type) == (False, "Refused")
        assert (negative.ok, negative.sign) == (True, -1)

    def test_a_day_is_not_a_unit_of_duration(self, oracle: Oracle) -> None:
        assert oracle.duration("1h30m").nanoseconds == 5_400_000_000_000
        assert 'unknown unit "d"' in oracle.duration("1d").why

    def test_yaml_1_1_reads_yes_as_true_and_refuses_a_key_that_stands_twice(self, oracle: Oracle) -> None:
        assert oracle.yaml("a: yes\nb: 0o17\n").value == {"a": True, "b": 15}
        assert 'key "a" already set' in oracle.yaml("a: 1\na: 2\n").why


class TestSelectors:
    def test_a_selector_prints_its_values_in_order_and_matches(self, oracle: Oracle) -> None:
        answer = oracle.selector("a=b, c in (y,x), !d", {"a": "b", "c": "x"})
        assert (answer.canonical, answer.matches) == ("a=b,c in (x,y),!d", True)
        assert oracle.selector("a=b", {}).matches is False
        assert oracle.selector("a=b").matches is None
        assert not oracle.selector("a in").ok

    def test_no_selector_matches_nothing_and_an_empty_one_everything(self, oracle: Oracle) -> None:
        assert oracle.label_selector(None, {"a": "b"}).matches is False
        assert oracle.label_selector({}, {"a": "b"}).matches is True

    def test_a_misspelt_selector_is_turned_away(self, oracle: Oracle) -> None:
        assert oracle.label_selector({"matchLabel": {}}).errors[0].type == "Decode"


class TestDefinitions:
    def test_a_field_that_a_definition_does_not_have_is_refused(self, oracle: Oracle) -> None:
        misspelt = definition()
        misspelt["spec"]["scoep"] = "Namespaced"
        assert 'unknown field "spec.scoep"' in oracle.load_crd(misspelt).why

    def test_a_rule_over_a_field_that_is_not_there_does_not_compile(self, oracle: Oracle) -> None:
        answer = oracle.load_crd(definition(**{"x-kubernetes-validations": [{"rule": "self.middle > 1"}]}))
        assert "undefined field 'middle'" in answer.why

    def test_a_rule_without_bounds_costs_too_much_and_its_cost_is_reported(self, oracle: Oracle) -> None:
        unbounded = SPEC["properties"] | {"knots": {"type": "array", "items": {"type": "string"}}}
        rule = {"rule": "self.knots.all(a, self.knots.all(b, a.contains(b)))"}
        answer = oracle.load_crd(definition(properties=unbounded, **{"x-kubernetes-validations": [rule]}))
        assert "estimated rule cost exceeds budget" in answer.why
        assert [cost.path for cost in answer.costs] == [answer.errors[0].path]
        assert answer.costs[0].cost > oracle.about().rule_cost_limit

    def test_the_rules_of_a_good_definition_are_far_below_the_limit(self, oracle: Oracle) -> None:
        answer = oracle.load_crd(DEFINITION)
        assert (answer.ok, answer.versions) == (True, ("v1",)), answer.why
        assert [0 < cost.cost < 100 for cost in answer.costs] == [True]

    def test_an_unrecognized_format_causes_a_warning(self, oracle: Oracle) -> None:
        odd = SPEC["properties"] | {"mode": {"type": "string", "format": "duratoin"}}
        assert oracle.load_crd(definition(properties=odd)).warnings == ('unrecognized format "duratoin"',)
        assert oracle.load_crd(DEFINITION).ok  # and back, for the tests that share this oracle


class TestObjects:
    def test_a_good_object_is_stored_with_defaults_and_without_what_is_unknown(self, ropes: Oracle) -> None:
        answer = ropes.validate(ROPE, rope(max=3, mode=None, nax=4))
        assert answer.ok, answer.why
        assert answer.pruned == ("spec.nax",)
        assert answer.stored["spec"] == {"min": 1, "max": 3}

    def test_a_broken_rule_is_reported_with_its_message(self, ropes: Oracle) -> None:
        answer = ropes.validate(ROPE, rope(min=5, max=3))
        assert [(e.path, e.type, e.detail) for e in answer.errors] == [
            ("spec", "FieldValueInvalid", "min must not exceed max")
        ]

    def test_rules_wait_until_the_shape_is_right(self, ropes: Oracle) -> None:
        answer = ropes.validate(ROPE, rope(min=5, max=3, mode="Loose"))
        assert answer.errors[0].path == "spec.mode"
        assert "some validation rules were not checked" in answer.why
        assert "min must not exceed max" not in answer.why

    @pytest.mark.parametrize(
        ("field", "number", "fits"),
        [
            ("length", "3", True),
            ("length", "3.0", True),  # to the schema, a whole number is an integer
            ("length", "3.5", False),
            ("length", '"3"', False),
            ("max", "3.0", False),  # but a rule that reads it as an int gets a double
        ],
    )
    def test_a_whole_number_with_a_fraction_is_an_integer_unless_a_rule_reads_it(
        self, ropes: Oracle, field: str, number: str, fits: bool
    ) -> None:
        spec: dict[str, Any] = {field: "HERE"}
        text = msgspec.json.encode(rope(**spec)).replace(b'"HERE"', number.encode())
        answer = ropes.validate(ROPE, msgspec.Raw(text))
        assert answer.ok is fits, answer.why

    def test_a_set_has_each_value_once(self, ropes: Oracle) -> None:
        assert ropes.validate(ROPE, rope(knots=["bowline", "bowline"])).paths == ("spec.knots[1]",)

    def test_metadata_is_checked_as_well(self, ropes: Oracle) -> None:
        answer = ropes.validate(ROPE, rope(metadata={"name": "Rope_1", "labels": {"a": "b c"}}))
        assert set(answer.paths) == {"metadata.name", "metadata.labels"}
        assert ropes.validate(ROPE, rope(metadata={"labels": {"a": 1}})).errors[0].type == "Decode"

    def test_a_scale_subresource_refuses_negative_replicas(self, ropes: Oracle) -> None:
        assert ropes.validate(ROPE, rope(replicas=-1)).paths == (".spec.replicas",)

    def test_a_status_is_dropped_on_creation_and_judged_when_it_is_written(self, ropes: Oracle) -> None:
        written = rope() | {"status": {"phase": "Going"}}
        created = ropes.validate(ROPE, written)
        assert created.ok, created.why
        assert "status" not in created.stored
        assert ropes.validate(ROPE, written, subresource="status").errors[0].path == "status.phase"

    def test_an_update_may_keep_a_value_that_a_creation_may_not_have(self, ropes: Oracle) -> None:
        assert not ropes.validate(ROPE, rope(mode="Loose")).ok
        assert ropes.validate(ROPE, rope(mode="Loose", max=3), old=rope(mode="Loose")).ok
        assert ropes.validate(ROPE, rope(), old=rope(metadata={"name": "other"})).paths == ("metadata.name",)

    def test_a_response_larger_than_a_pipe_buffer_is_complete(self, ropes: Oracle) -> None:
        note = "x" * 2_000
        many = [rope(metadata={"annotations": {"note": note}}, min=i, max=500) for i in range(1_000)]
        answers = ropes.validate_all(ROPE, many)
        assert [answer.ok for answer in answers] == [i <= 500 for i in range(1_000)]
        assert all(answer.stored["metadata"]["annotations"]["note"] == note for answer in answers)


class TestConversation:
    def test_an_invalid_request_does_not_end_the_oracle(self, ropes: Oracle) -> None:
        with pytest.raises(OracleError, match=r"no definition of .*/v9, Kind=Rope"):
            ropes.validate(ROPE._replace(version="v9"), rope())
        with pytest.raises(OracleError, match='no subresource "scale"'):
            ropes.validate(ROPE, rope(), subresource="scale")
        assert ropes.quantity("1").ok

    def test_a_closed_oracle_raises(self) -> None:
        with Oracle() as short:
            assert short.quantity("1Ki").value == 1024
        with pytest.raises(OracleError, match="closed"):
            short.quantity("1Ki")
