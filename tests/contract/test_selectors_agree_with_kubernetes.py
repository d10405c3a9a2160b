"""`Selector` reads, prints and matches as the API server does, in both forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.oracles.kubernetes import Oracle
from trellis.base.errors import InvalidSelector
from trellis.base.selectors import MatchExpression, Selector, parse_selector, selector_from_object

keys = st.sampled_from(["a", "b", "in", "notin", "x.y/z", "A_b", "-a", "a/b/c", "/a", "a/", "", "k" * 64])
good_keys = st.sampled_from(["a", "b", "in", "x.y/z"])
values = st.sampled_from(["", "x", "1", "5", "in", "007", "9223372036854775808", "-x", "x y", "v" * 64])
labels = st.dictionaries(good_keys, st.sampled_from(["", "x", "1", "3", "-3", "+4", "007", "9223372036854775808"]))
tokens = st.sampled_from(["a", "b", "in", "notin", "x.y/z", "1", "=", "==", "!=", "!", "(", ")", ",", "<", ">", " "])
requirements = st.one_of(
    good_keys,
    good_keys.map("!{}".format),
    st.builds("{}{}{}".format, good_keys, st.sampled_from(["=", "==", "!=", "<", ">"]), values),
    st.builds("{} {} ({})".format, good_keys, st.sampled_from(["in", "notin"]), st.lists(values).map(",".join)),
)
texts = st.one_of(st.lists(requirements, max_size=3).map(",".join), st.lists(tokens, max_size=8).map("".join))
expressions = st.builds(
    MatchExpression,
    keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "in", "Gt", ""]),
    st.lists(values, max_size=2, unique=True).map(tuple),
)


def unless_refused(read: Callable[[], Selector]) -> Selector | None:
    try:
        return read()
    except InvalidSelector:
        return None


def written(match_labels: dict[str, str], match_expressions: list[MatchExpression]) -> dict[str, Any]:
    return {"matchLabels": match_labels, "matchExpressions": match_expressions}


@given(texts, labels)
@settings(deadline=None, max_examples=400)
def test_the_text_form_means_what_it_means_to_kubernetes(oracle: Oracle, text: str, some: dict[str, str]) -> None:
    decision = oracle.selector(text, some)
    ours = unless_refused(lambda: parse_selector(text))
    assert decision.ok == (ours is not None), decision.why or str(ours)
    if ours is None:
        return
    assert (str(ours), ours.matches(some)) == (decision.canonical, decision.matches)


@given(st.dictionaries(keys, values, max_size=2), st.lists(expressions, max_size=2), labels)
@settings(deadline=None, max_examples=400)
def test_the_object_form_means_what_it_means_to_kubernetes(
    oracle: Oracle,
    match_labels: dict[str, str],
    match_expressions: list[MatchExpression],
    some: dict[str, str],
) -> None:
    decision = oracle.label_selector(written(match_labels, match_expressions), some)
    ours = unless_refused(lambda: selector_from_object(match_labels, match_expressions))
    assert decision.ok == (ours is not None), decision.why or str(ours)
    if ours is None:
        return
    assert ours.matches(some) == decision.matches
    # Kubernetes leaves the order open where a key recurs.
    assert sorted(str(ours).split(",")) == sorted(decision.canonical.split(","))


def test_an_absent_selector_selects_nothing(oracle: Oracle) -> None:
    decision = oracle.label_selector(None, {"a": "x"})
    ours = Selector.nothing()
    assert (ours.matches({"a": "x"}), str(ours)) == (decision.matches, decision.canonical)
