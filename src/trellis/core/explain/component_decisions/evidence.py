"""Evidence about one namespace: the decisions of all components, from one state, at one time."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE, Snapshot
from trellis.core.explain.component_decisions.hvpa_plans import HvpaEvidence, run_hvpa_controller
from trellis.core.explain.component_decisions.new_pods import NewPodEvidence, admit_new_pods
from trellis.core.explain.component_decisions.recommendations import RecommendationEvidence, run_recommender
from trellis.core.explain.component_decisions.resize_plans import ResizeEvidence, run_updater
from trellis.core.explain.component_decisions.settings import CollectedSettings


class Evidence(msgspec.Struct, frozen=True):
    """The collected state, and the decisions made from it: all that an explanation is built from."""

    collected: ClusterState
    components: CollectedSettings
    namespace: str
    now: float
    recommended: RecommendationEvidence
    updated: ResizeEvidence
    new_pods: Mapping[TargetRef, NewPodEvidence]
    hvpas: Mapping[str, HvpaEvidence]


def build_evidence(
    collected: ClusterState, namespace: str, components: CollectedSettings | None = None, now: float | None = None
) -> Evidence:
    """Run all components, at the time of the collection unless another is given."""
    settings = components or CollectedSettings()
    time = collected.time if now is None else now
    return Evidence(
        collected,
        settings,
        namespace,
        time,
        run_recommender(collected, namespace, settings, time),
        run_updater(collected, namespace, settings, time),
        admit_new_pods(collected, namespace, settings),
        run_hvpa_controller(collected, namespace, settings, time),
    )


def build_unknown_object_error(kind: str, name: str, evidence: Evidence, among: Snapshot) -> InvalidInput:  # type: ignore[type-arg]
    """The error for an unknown object, with a suggestion."""
    namespace, collected = evidence.namespace, evidence.collected
    if (namespace, name) in among.rejected:
        return InvalidInput(name, f"cannot be read: {among.rejected[namespace, name]}")
    for missing in collected.missing_in(namespace):
        if missing.what in (kind, f"{kind} {name}"):
            return InvalidInput(name, f"cannot be looked up as {kind} in namespace {namespace}: {missing.why}")
        if missing.what == "Namespace" and missing.where == namespace:
            return InvalidInput(namespace, f"is a namespace that cannot be read: it {missing.why}")
    names = sorted(obj.metadata.name for obj in among.by_index(BY_NAMESPACE, namespace))
    # Of pods one knows the workload, which their names begin with.
    guess = suggest_name(name, names) or next(
        (candidate for candidate in names if candidate.startswith(f"{name}-")), None
    )
    elsewhere = sorted({namespace for namespace, obj in among.objects if obj == name})
    hint = f' (did you mean "{guess}"?)' if guess else ""
    if elsewhere:
        hint = f" (there is one in {', '.join(elsewhere)})"
    elif not guess and not collected.is_complete:
        hint = " (the dump is truncated)"
    return InvalidInput(name, f"there is no {kind} of that name in namespace {namespace}{hint}")
