"""Describes in plain sentences what an object will do.

The sentences are made from the same effective meaning (`trellis.api.resolve`) that the controllers act on, so they
cannot say anything else than what will happen. What becomes of running pods is what the updater's plan decides for
the workload in the same files, with the updater's default flags; what a cluster adds is for `trellis explain`.
"""

from __future__ import annotations

from typing import Any, Final

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.kwok_node_group import KwokNodeGroup
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.resolve import resolve_buffer, resolve_hvpa, resolve_vpa
from trellis.api.scenario.spec import Scenario
from trellis.core.lint.check import CheckResult
from trellis.core.lint.cross_checks import TrellisObject
from trellis.core.lint.workloads import WorkloadIndex
from trellis.core.sizing.governors import compile_hvpa_governor, compile_vpa_governor
from trellis.reports.describe.buffer import buffer_sentences
from trellis.reports.describe.hvpa import hvpa_sentences
from trellis.reports.describe.kwok_group import kwok_group_sentences
from trellis.reports.describe.running_pods import expected_outcomes
from trellis.reports.describe.scenario import scenario_sentences
from trellis.reports.describe.vpa import vpa_sentences

REFUSED: Final = "Does nothing: it is refused, see below."


def describe_objects(checked: CheckResult) -> list[dict[str, Any]]:
    """Object, file and sentences for every object of ours, as JSON shows them; one that is refused says so."""
    sound = {id(ours) for ours in checked.valid_objects}
    described = []
    for ours in checked.objects:
        manifest = ours.manifest
        sentences = describe_object(ours, checked.workloads) if id(ours) in sound else [REFUSED]
        described.append({"object": manifest.title, "file": manifest.file, "sentences": sentences})
    return described


def describe_object(ours: TrellisObject, workloads: WorkloadIndex) -> list[str]:
    """What one object will do."""
    target = ours.target
    workload = workloads.find(ours.manifest.namespace, *target) if target else None
    match ours.decoded:
        case VerticalPodAutoscaler() as vpa:
            replicas = workload.replicas if workload is not None else None
            expected = expected_outcomes(compile_vpa_governor(vpa), workload, vpa.metadata.annotations, replicas)
            return vpa_sentences(resolve_vpa(vpa), vpa.spec.target_ref, workload, expected)
        case Hvpa() as hvpa:
            meaning = resolve_hvpa(hvpa)
            expected = expected_outcomes(
                compile_hvpa_governor(hvpa), workload, hvpa.metadata.annotations, meaning.replicas
            )
            return hvpa_sentences(meaning, hvpa.spec.target_ref, expected)
        case Buffer() as buffer:
            return buffer_sentences(resolve_buffer(buffer))
        case Scenario() as scenario:
            return scenario_sentences(scenario.spec)
        case KwokNodeGroup() as group:
            return kwok_group_sentences(group)
        case _:
            return ["Holds a recommender's history of one container; it does nothing by itself."]
