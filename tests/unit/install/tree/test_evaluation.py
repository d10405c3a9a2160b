"""Trees evaluated with concrete values."""

from __future__ import annotations

from typing import Any

import pytest

from trellis.base.errors import InternalError
from trellis.install.tree.evaluation import Context, compute, evaluate
from trellis.install.tree.nodes import (
    ITEM,
    NAMESPACE,
    Choice,
    Commented,
    Contains,
    Equals,
    Expression,
    ForEach,
    HasKey,
    Named,
    Not,
    OneOf,
    Release,
    Value,
    When,
    YamlText,
    all_of,
    any_of,
    extend,
    format_text,
)

VALUES = {"on": True, "off": False, "name": "web", "number": 3, "names": ["a", "b"], "more": {"x": 1}, "none": {}}


def context(**values: Any) -> Context:
    return Context({**VALUES, **values}, name="rel", namespace="ops", service="Helm")


def one(tree: Any) -> Any:
    [result] = evaluate(tree, context())
    return result


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (Value("more.x"), 1),
        (Release("Name"), "rel"),
        (NAMESPACE, "ops"),
        (format_text("%s:%d/%s", Value("name"), Value("number"), NAMESPACE), "web:3/ops"),
        (Choice(Value("on"), "yes", Value("name")), "yes"),
        (Choice(Value("none"), "yes", Value("name")), "web"),
        (Equals(Value("name"), "web"), True),
        (OneOf(Value("name"), ("db",)), False),
        (Contains(Value("names"), "b"), True),
        (HasKey(Value("more"), "y"), False),
        (Not(Value("none")), True),
        (all_of(Value("on"), Value("off")), False),
        (any_of(Value("off"), Value("names")), True),
        (Named("anything", Value("name")), "web"),
    ],
)
def test_an_expression_has_the_value_that_its_words_say(expression: Expression, value: object) -> None:
    assert compute(expression, context()) == value


def test_keys_and_items_whose_condition_does_not_hold_are_left_out() -> None:
    tree = {"a": 1, "b": When(Value("off"), 2), "c": [When(Value("on"), 3), When(Value("off"), 4)]}
    assert one(tree) == {"a": 1, "c": [3]}
    assert evaluate(When(Value("off"), tree), context()) == []


def test_a_loop_yields_its_body_once_for_each_item() -> None:
    assert one({"args": ["x", ForEach(Value("names"), format_text("--n=%s", ITEM))]}) == {
        "args": ["x", "--n=a", "--n=b"]
    }
    assert evaluate(ForEach(Value("names"), [{"name": ITEM}, {"of": NAMESPACE}]), context()) == [
        {"name": "a"},
        {"of": "ops"},
        {"name": "b"},
        {"of": "ops"},
    ]


def test_maps_and_lists_are_extended_by_values() -> None:
    assert one({"a": extend({"k": NAMESPACE}, Value("more"), Value("none"))}) == {"a": {"k": "ops", "x": 1}}
    assert one({"a": extend(["z"], Value("names"))}) == {"a": ["z", "a", "b"]}


def test_a_text_contains_a_structure_as_yaml() -> None:
    assert one({"f": YamlText("kind: A\n", Value("more"))}) == {"f": "kind: A\nx: 1\n"}


def test_comments_stay_only_where_they_are_wanted() -> None:
    tree = {"rules": [Commented("why", {"verbs": ["get"]})], "b": Commented("no", When(Value("off"), 1))}
    assert one(tree) == {"rules": [{"verbs": ["get"]}]}
    assert evaluate(tree, context(), comments=True) == [{"rules": [Commented("why", {"verbs": ["get"]})]}]


def test_an_expression_without_a_meaning_is_a_bug() -> None:
    with pytest.raises(InternalError):
        compute(Expression(), context())
