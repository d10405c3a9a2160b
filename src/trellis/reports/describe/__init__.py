"""Describes in plain sentences what an object will do.

The sentences are made from the same effective meaning (`trellis.api.resolve`) that the controllers act on, so they
cannot say anything else than what will happen. What becomes of running pods is what the updater's plan decides for
the workload in the same files, with the updater's default flags; what a cluster adds is for `trellis explain`.
"""

from __future__ import annotations

from typing import Any, Final

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.claim_node_group import ClaimNodeGroup
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.kwok_node_group import KwokNodeGroup
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.resolve import resolve_buffer, resolve_hvpa, resolve_vpa
from trellis.api.scenario.spec import Scenario
from trellis.core.lint.check import CheckResult
from trellis.core.lint.cross_checks import TrellisObject
from trellis.core.lint.formats import FileFormat
from trellis.core.lint.workloads import WorkloadIndex
from trellis.core.sizing.governors import compile_hvpa_governor, compile_vpa_governor
from trellis.reports.describe.buffer import describe_buffer
from trellis.reports.describe.hvpa import describe_hvpa
from trellis.reports.describe.node_groups import describe_claim_group, describe_kwok_group
from trellis.reports.describe.running_pods import preview_at_replica_bounds
from trellis.reports.describe.scenario import describe_scenario
from trellis.reports.describe.vpa import describe_vpa

REFUSED: Final = "Does nothing: it is refused, see below."


def describe_objects(checked: CheckResult) -> list[dict[str, Any]]:
    """Object, file and sentences for every object of our kinds, as in JSON; a refused object has `REFUSED`."""
    valid_objects = {id(ours) for ours in checked.valid_objects}
    described = []
    for trellis_object in checked.objects:
        manifest = trellis_object.manifest
        sentences = (
            describe_object(trellis_object, checked.workloads) if id(trellis_object) in valid_objects else [REFUSED]
        )
        described.append({"object": manifest.title, "file": manifest.file, "sentences": sentences})
    return described


def describe_object(trellis_object: TrellisObject, workloads: WorkloadIndex) -> list[str]:
    """Sentences about the effect of one object."""
    if isinstance(trellis_object.kind, FileFormat):
        return [trellis_object.kind.effect]
    target = trellis_object.target
    workload = workloads.find(trellis_object.manifest.namespace, *target) if target else None
    match trellis_object.decoded:
        case VerticalPodAutoscaler() as vpa:
            replicas = workload.replicas if workload is not None else None
            expected = preview_at_replica_bounds(
                compile_vpa_governor(vpa), workload, vpa.metadata.annotations, replicas
            )
            return describe_vpa(resolve_vpa(vpa), vpa.spec.target_ref, workload, expected)
        case Hvpa() as hvpa:
            meaning = resolve_hvpa(hvpa)
            expected = preview_at_replica_bounds(
                compile_hvpa_governor(hvpa), workload, hvpa.metadata.annotations, meaning.replicas
            )
            return describe_hvpa(meaning, hvpa.spec.target_ref, expected)
        case Buffer() as buffer:
            return describe_buffer(resolve_buffer(buffer))
        case Scenario() as scenario:
            return describe_scenario(scenario.spec)
        case KwokNodeGroup() as group:
            return describe_kwok_group(group)
        case ClaimNodeGroup() as claim_group:
            return describe_claim_group(claim_group)
        case _:
            return ["Holds a recommender's history of one container; and has no effect by itself."]
