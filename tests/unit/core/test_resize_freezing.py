"""Who has stopped all actuation, and where."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from trellis.core.resize.freezing import ANNOTATION, Freeze, Reach, freeze_of


@pytest.mark.parametrize(
    ("config", "namespace", "own", "found"),
    [
        (None, {}, {}, None),
        ({}, {}, {}, Freeze("somebody", Reach.CLUSTER)),
        ({"freeze": "false"}, {}, {}, None),
        ({"freeze": " False "}, {ANNOTATION: "true"}, {}, Freeze("somebody", Reach.NAMESPACE)),
        ({"by": "alice", "why": "incident"}, {}, {}, Freeze("alice", Reach.CLUSTER, "incident")),
        ({"freeze": "bob"}, {}, {}, Freeze("bob", Reach.CLUSTER)),
        (None, {ANNOTATION: "carol"}, {ANNOTATION: "dave"}, Freeze("carol", Reach.NAMESPACE)),
        (None, {ANNOTATION: "false"}, {ANNOTATION: "dave"}, Freeze("dave", Reach.OBJECT)),
        (None, {}, {ANNOTATION: ""}, Freeze("somebody", Reach.OBJECT)),
        (None, {}, {ANNOTATION: "false"}, None),
    ],
)
def test_the_widest_freeze_holds_and_only_false_is_no(
    config: Mapping[str, str] | None, namespace: Mapping[str, str], own: Mapping[str, str], found: Freeze | None
) -> None:
    assert freeze_of(config, namespace, own) == found


def test_a_freeze_says_who_and_why() -> None:
    assert str(Freeze("alice", Reach.NAMESPACE)) == "the namespace is frozen by alice"
    assert str(Freeze("alice", Reach.OBJECT, "incident")) == "the object is frozen by alice: incident"
