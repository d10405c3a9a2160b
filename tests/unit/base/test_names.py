from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.names import check_dns_label, check_dns_subdomain, check_label_key, check_label_value, suggest_name


@pytest.mark.parametrize("name", ["a", "0", "web-1", "a" * 63])
def test_labels_are_accepted(name: str) -> None:
    assert check_dns_label(name) is None
    assert check_dns_subdomain(name) is None


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a_b", "a.b", "a" * 64, "\u00e4", "a\n", "a b"])
def test_an_invalid_dns_label_is_refused(name: str) -> None:
    assert check_dns_label(name)


@pytest.mark.parametrize("name", ["a.b", "0.1", "x-y.example.com", ".".join(["a" * 62] * 4)])
def test_subdomains_are_accepted(name: str) -> None:
    assert check_dns_subdomain(name) is None


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "a.-b", "A.b", "a_b", "a" * 254, "a\n"])
def test_an_invalid_subdomain_is_refused(name: str) -> None:
    assert check_dns_subdomain(name)


@pytest.mark.parametrize("key", ["app", "App_1.x-y", "example.com/app", "a" * 63, "x/" + "a" * 63, "in"])
def test_label_keys_are_accepted(key: str) -> None:
    assert check_label_key(key) is None


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("", "the name must not be empty"),
        ("example.com/", "the name must not be empty"),
        ("/app", "the prefix before '/' must not be empty"),
        ("a/b/c", "at most one '/'"),
        ("Example.com/app", "the prefix before '/' must consist"),
        ("-app", "the name must consist"),
        ("app.", "the name must consist"),
        ("a" * 64, "the name must have at most 63 characters, has 64"),
        ("a" * 254 + "/x", "the prefix before '/' must have at most 253 characters, has 254"),
    ],
)
def test_a_refused_label_key_names_the_part(key: str, part: str) -> None:
    assert part in (check_label_key(key) or "")


@pytest.mark.parametrize("value", ["", "a", "A_1.b-c", "0", "a" * 63])
def test_label_values_are_accepted(value: str) -> None:
    assert check_label_value(value) is None


@pytest.mark.parametrize("value", ["-", "a-", "_a", "a/b", "a b", "a" * 64, "\u00e4", "a\n"])
def test_an_invalid_label_value_is_refused(value: str) -> None:
    assert check_label_value(value)


FIELDS = ("minAllowed", "maxAllowed", "controlledResources", "controlledValues", "mode")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("minallowed", "minAllowed"),
        ("maxAlowed", "maxAllowed"),
        ("maxAlolwed", "maxAllowed"),
        ("mod", "mode"),
        ("controledValue", "controlledValues"),
        ("replicas", None),
        ("m", None),
        ("", None),
    ],
)
def test_a_typo_is_suggested_and_an_unrelated_word_is_not(word: str, meant: str | None) -> None:
    assert suggest_name(word, FIELDS) == meant


def test_a_difference_in_case_beats_a_slip() -> None:
    assert suggest_name("auto", ["Autos", "AUTO", "aut"]) == "AUTO"


def test_of_equally_near_names_the_alphabetically_first_is_suggested() -> None:
    assert suggest_name("caat", ["coat", "chat"]) == suggest_name("caat", ["chat", "coat"]) == "chat"


def test_without_choices_there_is_no_suggestion() -> None:
    assert suggest_name("mode", []) is None


@given(st.text(min_size=1), st.lists(st.text(min_size=1)))
def test_an_exact_match_is_always_suggested(word: str, others: list[str]) -> None:
    suggestion = suggest_name(word, [*others, word])
    assert suggestion is not None
    assert suggestion.lower() == word.lower()
