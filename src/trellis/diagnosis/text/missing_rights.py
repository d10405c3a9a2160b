"""Unknown facts that a user may not read: many of them become one entry, with one role for all of a namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from trellis.diagnosis.findings import UnknownFact
from trellis.diagnosis.unread import FORBIDDEN

# From so many facts on. Below, each one names its own right.
_MANY: Final = 3
_ROLE: Final = "trellis-diagnosis"
_READING: Final = ("get", "list")


def is_forbidden(fact: UnknownFact) -> bool:
    """Whether a right to read is all that is missing."""
    return fact.verb in _READING


def has_many_forbidden(unknown: Iterable[UnknownFact]) -> bool:
    """Whether one role for all facts is easier to read than a role for each."""
    return sum(map(is_forbidden, unknown)) >= _MANY


def suggest_roles(unknown: Iterable[UnknownFact]) -> str:
    """The commands that create roles for all facts that may not be read."""
    forbidden = sorted(filter(is_forbidden, unknown), key=lambda fact: fact.namespace)
    groups = groupby(forbidden, key=lambda fact: fact.namespace)
    commands = [_build_command(namespace, tuple(facts)) for namespace, facts in groups]
    return f"{'; '.join(commands)}; and bind {'it' if len(commands) == 1 else 'them'} to you"


def _build_command(namespace: str, facts: Sequence[UnknownFact]) -> str:
    kind = f"role {_ROLE} -n {namespace}" if namespace else f"clusterrole {_ROLE}"
    verbs = ",".join(sorted({fact.verb for fact in facts}))
    resources = " ".join(f"--resource={name}" for name in dict.fromkeys(fact.resource for fact in facts))
    return f"kubectl create {kind} --verb={verbs} {resources}"


def merge_forbidden(unknown: Sequence[UnknownFact]) -> Sequence[UnknownFact]:
    """The facts with one entry for all that may not be read, if there are many."""
    if not has_many_forbidden(unknown):
        return unknown
    subjects = ", ".join(fact.subject for fact in unknown if is_forbidden(fact))
    merged = UnknownFact(FORBIDDEN, subjects, suggest_roles(unknown))
    return [merged, *(fact for fact in unknown if not is_forbidden(fact))]
