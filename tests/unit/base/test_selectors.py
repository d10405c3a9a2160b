from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.errors import InvalidSelector
from trellis.base.selectors import MatchExpression, Selector, parse_selector, selector_from_object

keys = st.sampled_from(["app", "tier", "in", "notin", "example.com/team"])
values = st.sampled_from(["", "web", "db", "1", "5", "in"])
labels = st.dictionaries(keys, values)
requirements = st.one_of(
    keys,
    keys.map("!{}".format),
    st.builds("{}{}{}".format, keys, st.sampled_from(["=", "==", "!="]), values),
    st.builds("{}{}{}".format, keys, st.sampled_from(["<", ">"]), st.integers(0, 9)),
    st.builds(
        lambda key, operator, chosen: f"{key} {operator} ({','.join(chosen)})",
        keys,
        st.sampled_from(["in", "notin"]),
        st.lists(values),
    ),
)
selectors = st.lists(requirements).map(",".join)


@pytest.mark.parametrize(
    ("text", "chosen", "left"),
    [
        ("a=b", {"a": "b"}, {"a": "c"}),
        ("a==b", {"a": "b"}, {}),
        ("a!=b", {"a": "c"}, {"a": "b"}),
        ("a!=b", {}, {"a": "b"}),
        ("a in (x,y)", {"a": "y"}, {"a": "z"}),
        ("a in (x,y)", {"a": "x"}, {}),
        ("a notin (x,y)", {"a": "z"}, {"a": "x"}),
        ("a notin (x,y)", {}, {"a": "y"}),
        ("a", {"a": ""}, {"b": "a"}),
        ("!a", {"b": "a"}, {"a": ""}),
        ("a=", {"a": ""}, {}),
        ("a in ()", {"a": ""}, {"a": "x"}),
        ("a in (x,)", {"a": ""}, {"a": "y"}),
        ("a>1", {"a": "2"}, {"a": "1"}),
        ("a<5", {"a": "-7"}, {"a": "5"}),
        ("a>1", {"a": "007"}, {"a": "x"}),
        ("a>1", {"a": "9223372036854775807"}, {"a": "9223372036854775808"}),
        ("a<5", {"a": "4"}, {}),
        ("a>1,a<5", {"a": "3"}, {"a": "5"}),
        ("a=b,c!=d", {"a": "b"}, {"a": "b", "c": "d"}),
        ("in in (in)", {"in": "in"}, {"in": "out"}),
        ("\ta =\nb ", {"a": "b"}, {"a": "c"}),
    ],
)
def test_a_selector_matches_only_matching_labels(text: str, chosen: dict[str, str], left: dict[str, str]) -> None:
    selector = parse_selector(text)
    assert selector.matches(chosen)
    assert not selector.matches(left)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("b=1,a=2", "a=2,b=1"),
        ("a == b", "a==b"),
        ("x in (c,a,b,a)", "x in (a,b,c)"),
        ("x notin()", "x notin ()"),
        ("! j , i", "i,!j"),
        ("k>1,k<5", "k>1,k<5"),
        ("a=b,c==d,e!=f,g in (x,y),h notin (z),i,!j", "a=b,c==d,e!=f,g in (x,y),h notin (z),i,!j"),
    ],
)
def test_selectors_print_sorted(text: str, printed: str) -> None:
    assert str(parse_selector(text)) == printed


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a,", "the end"),
        (",a", '","'),
        ("a,,b", '","'),
        ("a b", '"b"'),
        ("a=b c", '"c"'),
        ("!a=b", '"="'),
        ("a in x", '"x"'),
        ("a in (x", "the end"),
        ("a in (x y)", '"y"'),
        ("a=(", '"("'),
        ("!", "the end"),
        ("a<=1", '"="'),
        ("a>x", "integer"),
        ("a>", "integer"),
        ("a>9223372036854775808", "integer"),
        ("a>1_0", "integer"),
        ("-a=b", "label key"),
        ("a/b/c", "label key"),
        ("a=-b", "the value of label a"),
        ("a=" + "x" * 64, "at most 63 characters"),
        ("a in (b,c/d)", '"c/d"'),
        ("\u00e4=b", "label key"),
    ],
)
def test_a_refused_selector_names_the_bad_part(text: str, part: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        parse_selector(text)
    assert part in str(caught.value)


def test_the_object_form_is_the_same_selector_as_the_text_form() -> None:
    written = selector_from_object(
        {"app": "web"},
        [
            MatchExpression("tier", "In", ("front", "back")),
            MatchExpression("env", "NotIn", ("test",)),
            MatchExpression("team", "Exists"),
            MatchExpression("legacy", "DoesNotExist"),
        ],
    )
    assert written == parse_selector("app=web,tier in (back,front),env notin (test),team,!legacy")
    assert str(written) == "app=web,env notin (test),!legacy,team,tier in (back,front)"


def test_an_empty_selector_selects_everything_and_an_absent_one_nothing() -> None:
    assert selector_from_object() == selector_from_object({}, []) == Selector.everything()
    assert Selector.everything().matches({})
    assert not Selector.nothing().matches({})
    assert not Selector.nothing().matches({"a": "b"})
    assert Selector.nothing() != Selector.everything()
    assert Selector.nothing().selects_nothing


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        (MatchExpression("a", "in", ("x",)), 'did you mean "In"?'),
        (MatchExpression("a", "Gt", ("1",)), "the operators are In, NotIn, Exists, DoesNotExist"),
        (MatchExpression("a", "In"), "at least one value"),
        (MatchExpression("a", "NotIn"), "at least one value"),
        (MatchExpression("a", "Exists", ("x",)), "take no values"),
        (MatchExpression("a", "DoesNotExist", ("x",)), "take no values"),
        (MatchExpression("a b", "Exists"), "label key"),
        (MatchExpression("a", "In", ("x", "y z")), '"y z"'),
    ],
)
def test_a_refused_expression_is_reported_with_position_and_rule(expression: MatchExpression, part: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        selector_from_object(None, [MatchExpression("ok", "Exists"), expression])
    assert part in str(caught.value)
    assert "matchExpressions[1]" in str(caught.value)


def test_a_refused_label_is_named() -> None:
    with pytest.raises(InvalidSelector, match=r'^"b c": matchLabels\["a"\]: the value of label a'):
        selector_from_object({"a": "b c"})


@given(selectors, labels)
def test_a_printed_selector_parses_to_the_same_selector(text: str, some: dict[str, str]) -> None:
    selector = parse_selector(text)
    again = parse_selector(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)
    assert again.matches(some) == selector.matches(some)


@given(selectors, selectors, labels)
def test_joined_selectors_match_the_intersection(a: str, b: str, some: dict[str, str]) -> None:
    joined = parse_selector(",".join(filter(None, (a, b))))
    assert joined.matches(some) == (parse_selector(a).matches(some) and parse_selector(b).matches(some))


@given(st.text(alphabet="ab1/=!(),<> in\u00e4\x00\u2028\n", max_size=10))
def test_any_text_is_either_read_or_refused_in_one_line(text: str) -> None:
    try:
        answer = f"selects {parse_selector(text)}"
    except InvalidSelector as error:
        answer = str(error)
    assert len(answer.splitlines()) == 1


@given(selectors, labels)
def test_labels_that_a_selector_matches_have_one_of_its_values(text: str, some: dict[str, str]) -> None:
    selector = parse_selector(text)
    if selector.matches(some):
        assert all(some.get(requirement.key) in requirement.values for requirement in selector.value_requirements)


def test_only_requirements_with_listed_values_are_indexable() -> None:
    selector = parse_selector("a=1,b==2,c in (3,4),d!=5,e notin (6),f,!g,h>7")
    assert [(requirement.key, requirement.values) for requirement in selector.value_requirements] == [
        ("a", ("1",)),
        ("b", ("2",)),
        ("c", ("3", "4")),
    ]
