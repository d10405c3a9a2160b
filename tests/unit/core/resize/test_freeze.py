"""Who has stopped all actuation, and where."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from trellis.core.resize.freeze import FREEZE_ANNOTATION, Freeze, FreezeScope, find_freeze


@pytest.mark.parametrize(
    ("config", "namespace", "own", "freeze"),
    [
        (None, {}, {}, None),
        ({}, {}, {}, Freeze("an unknown author", FreezeScope.CLUSTER)),
        ({"freeze": "false"}, {}, {}, None),
        ({"freeze": " False "}, {FREEZE_ANNOTATION: "true"}, {}, Freeze("an unknown author", FreezeScope.NAMESPACE)),
        ({"by": "alice", "why": "incident"}, {}, {}, Freeze("alice", FreezeScope.CLUSTER, "incident")),
        ({"freeze": "bob"}, {}, {}, Freeze("bob", FreezeScope.CLUSTER)),
        (None, {FREEZE_ANNOTATION: "carol"}, {FREEZE_ANNOTATION: "dave"}, Freeze("carol", FreezeScope.NAMESPACE)),
        (None, {FREEZE_ANNOTATION: "false"}, {FREEZE_ANNOTATION: "dave"}, Freeze("dave", FreezeScope.OBJECT)),
        (None, {}, {FREEZE_ANNOTATION: ""}, Freeze("an unknown author", FreezeScope.OBJECT)),
        (None, {}, {FREEZE_ANNOTATION: "false"}, None),
    ],
)
def test_the_widest_freeze_holds_and_only_false_is_no(
    config: Mapping[str, str] | None, namespace: Mapping[str, str], own: Mapping[str, str], freeze: Freeze | None
) -> None:
    assert find_freeze(config, namespace, own) == freeze


def test_a_freeze_names_its_author_and_reason() -> None:
    assert str(Freeze("alice", FreezeScope.NAMESPACE)) == "the namespace is frozen by alice"
    assert str(Freeze("alice", FreezeScope.OBJECT, "incident")) == "the object is frozen by alice: incident"
