"""Validation rules of the KwokNodeGroup, and of the nodes that are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trellis.api.kinds.kwok_node_group import (
    GROUP_LABEL,
    KWOK_KEY,
    STARTING_TAINT,
    GroupFailure,
    GroupFailureMode,
    KwokNodeGroupSpec,
)
from trellis.api.problems import FORBIDDEN, INVALID, REQUIRED, ValidationProblem
from trellis.api.rules.node_group import build_node_group_rules, check_resources
from trellis.api.schema.fields import Rule, rule
from trellis.base.durations import parse_span

MAX_BOOT_TIME: Final = "1d"

_RESERVED_LABELS: Final = (GROUP_LABEL, "kubernetes.io/hostname", KWOK_KEY)


def _check_label(key: str) -> str | None:
    return "is set on each node by Trellis and must not be given" if key in _RESERVED_LABELS else None


def _check_taint(key: str) -> str | None:
    return "is set by Trellis while a node starts and must not be given" if key == STARTING_TAINT else None


@rule(KwokNodeGroupSpec, "bootTime", message="bootTime must be at most a day")
def boots_within_a_day(spec: KwokNodeGroupSpec) -> Iterator[ValidationProblem]:
    """A longer value is a mistake."""
    if spec.boot_time is not None and parse_span(spec.boot_time) > parse_span(MAX_BOOT_TIME):
        yield ValidationProblem(("bootTime",), INVALID, f"must be at most {MAX_BOOT_TIME}", spec.boot_time)


@rule(GroupFailure, "how", "resources", message="resources must be given with OtherShape, and only with it")
def failure_resources_match_its_mode(failure: GroupFailure) -> Iterator[ValidationProblem]:
    """Only nodes of another shape need one."""
    if failure.how == GroupFailureMode.OTHER_SHAPE:
        if failure.resources is None:
            yield ValidationProblem(("resources",), REQUIRED, f"must be given with how: {GroupFailureMode.OTHER_SHAPE}")
        else:
            yield from check_resources(("resources",), failure.resources)
    elif failure.resources is not None:
        yield ValidationProblem(("resources",), FORBIDDEN, f"is allowed only with how: {GroupFailureMode.OTHER_SHAPE}")


KWOK_NODE_GROUP_RULES: tuple[Rule[Any], ...] = (
    *build_node_group_rules(KwokNodeGroupSpec, _check_label, _check_taint),
    boots_within_a_day,
    failure_resources_match_its_mode,
)
