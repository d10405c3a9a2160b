"""Rules for the names of objects, labels and resources, and suggestions for misspelled names.

The rules are those of `k8s.io/apimachinery/pkg/api/validate/content` in Kubernetes 1.36. Each check returns what is
wrong with a name, or None. Lengths count bytes there; every allowed character is one byte, so characters do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

_LABEL_LENGTH = 63
_SUBDOMAIN_LENGTH = 253


def check_dns_label(name: str) -> str | None:
    """DNS-1123 label: the names of namespaces, containers and services."""
    if not name:
        return "must not be empty"
    if len(name) > _LABEL_LENGTH:
        return f"must have at most {_LABEL_LENGTH} characters, has {len(name)}"
    if _LABEL.fullmatch(name):
        return None
    return "must consist of a-z, 0-9 and '-', and start and end with a letter or digit"


def check_dns_subdomain(name: str) -> str | None:
    """DNS-1123 subdomain: the names of most objects."""
    if not name:
        return "must not be empty"
    if len(name) > _SUBDOMAIN_LENGTH:
        return f"must have at most {_SUBDOMAIN_LENGTH} characters, has {len(name)}"
    if _SUBDOMAIN.fullmatch(name):
        return None
    return "must consist of a-z, 0-9, '-' and '.', and start and end, at every dot, with a letter or digit"


def check_label_key(key: str) -> str | None:
    """The key of a label or annotation, and a resource's name: `name` or `prefix/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash:
        if "/" in prefix:
            return "must have at most one '/', between a prefix and a name"
        problem = check_dns_subdomain(prefix)
        if problem:
            return f"the prefix before '/' {problem}"
    if not name:
        return "the name must not be empty"
    problem = _check_name_part(name)
    return f"the name {problem}" if problem else None


def check_label_value(value: str) -> str | None:
    """The value of a label; it may be empty."""
    return _check_name_part(value) if value else None


def suggest_name(word: str, choices: Iterable[str]) -> str | None:
    """The choice that was probably meant, for "did you mean"; None if none is near.

    A choice that differs only in case wins. Else one slip is allowed for every three letters of the word, where a slip
    is a letter too many, too few, wrong, or swapped with the next. Among equally near choices the first in the alphabet
    wins, so that a message never changes from run to run.
    """
    lowered = word.lower()
    ranked = sorted((0 if c.lower() == lowered else _edit_distance(lowered, c.lower()), c) for c in choices)
    if not ranked or ranked[0][0] > len(word) // 3:
        return None
    return ranked[0][1]


def _check_name_part(name: str) -> str | None:
    if len(name) > _LABEL_LENGTH:
        return f"must have at most {_LABEL_LENGTH} characters, has {len(name)}"
    if _NAME_PART.fullmatch(name):
        return None
    return "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"


def _edit_distance(word: str, choice: str) -> int:
    """The optimal string alignment distance: that of Levenshtein, with swapped neighbours as one slip."""
    before: list[int] = []
    last = list(range(len(choice) + 1))
    for i, actual_letter in enumerate(word, start=1):
        row = [i]
        for j, expected_letter in enumerate(choice, start=1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (actual_letter != expected_letter))
            if i > 1 and j > 1 and actual_letter == choice[j - 2] and word[i - 2] == expected_letter:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]
