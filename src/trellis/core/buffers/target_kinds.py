"""Protocol for kinds of targets that have no scale, or more to say than their scale does.

A plug-in for such a kind implements `TargetKind` and announces it; nothing else of Trellis has to change:

    class RolloutTargets:
        api_version, kind, plural = "argoproj.io/v1alpha1", "Rollout", "rollouts"

        def read(self, document: Mapping[str, Any]) -> TargetReading:
            spec = document["spec"]
            return TargetReading(spec.get("replicas", 1), selector_in(spec["selector"]), spec["template"])

A kind is read from the object alone: no I/O, no clock, the same answer each time, and the document left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.base.selectors import MatchExpression, Selector, parse_selector, selector_from_object
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.target_problems import (
    TARGET_NOT_SCALABLE,
    TARGET_SELECTS_NOTHING,
    TargetProblem,
    build_target_problem,
)

_JOB: Final = "Job"

TARGET_UNREADABLE = Reason("TargetUnreadable", "The reader of this kind of target failed.", Severity.ERROR)


class TargetReading(msgspec.Struct, frozen=True):
    """The pods of a target, as its object describes them.

    `replicas` are how many there are, None if it does not say. `selector` chooses them. `template` is what they are
    made from, as a Deployment writes it: `metadata` and `spec`; None if there is none, and then a Buffer waits for the
    first pod.
    """

    replicas: int | None
    selector: Selector
    template: Mapping[str, Any] | None = None


@runtime_checkable
class TargetKind(Protocol):
    """One kind of target. `plural` is its name in the API, as `kubectl api-resources` shows it."""

    @property
    def api_version(self) -> str:
        """Group and version, such as `argoproj.io/v1alpha1`."""

    @property
    def kind(self) -> str:
        """The kind, such as `Rollout`."""

    @property
    def plural(self) -> str:
        """Its name in paths, such as `rollouts`."""

    def read(self, document: Mapping[str, Any]) -> TargetReading:
        """Read an object of the kind. An error is reported in the Buffer's condition and affects no other Buffer."""


def build_not_scalable(kind: str) -> TargetProblem:
    """The problem of a kind that cannot be the target of a Buffer: its pods and their number are unknown."""
    return build_target_problem(TARGET_NOT_SCALABLE, f"{kind} has no scale subresource")


def count_target_pods(kind: str, replicas: int | None, parallelism: int | None = None) -> int | None:
    """How many pods a target has: the replicas of its status, or the parallelism of a Job."""
    if kind == _JOB:
        return 1 if parallelism is None else parallelism
    return replicas


def read_scale_selector(text: str) -> Selector:
    """The selector of a scale; raises `InvalidSelector`."""
    return parse_selector(text) if text else Selector.nothing()


def check_target_selector(target: TargetRef, selector: Selector) -> TargetProblem | None:
    """The problem of a target that selects no pods, or all pods of its namespace."""
    if not selector.selects_nothing and selector.requirements:
        return None
    return build_target_problem(TARGET_SELECTS_NOTHING, f"{target} has no selector, or an empty one")


def selector_in(document: Mapping[str, Any] | None) -> Selector:
    """A selector as `spec.selector` of a Deployment has it; None selects nothing."""
    if document is None:
        return Selector.nothing()
    expressions = [
        MatchExpression(expression["key"], expression["operator"], tuple(expression.get("values") or ()))
        for expression in document.get("matchExpressions") or ()
    ]
    return selector_from_object(document.get("matchLabels") or {}, expressions)


def template_in(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The pod template of a Deployment, StatefulSet, Job or the like, with the volumes that each pod gets its own of.

    A container of a StatefulSet mounts volumes that no template lists; its controller adds them, and so does this.
    """
    spec = document.get("spec") or {}
    template: Mapping[str, Any] | None = spec.get("template")
    claims = spec.get("volumeClaimTemplates") or ()
    if template is None or not claims:
        return template
    workload_name = document["metadata"]["name"]
    names = [claim["metadata"]["name"] for claim in claims]
    added = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{workload_name}-0"}} for name in names]
    pod = dict(template.get("spec") or {})
    pod["volumes"] = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names] + added
    return {**template, "spec": pod}
