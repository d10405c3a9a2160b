"""What an object will do, in plain sentences.

The sentences are made from the same effective meaning (`trellis.api.resolve`) that the controllers act on, so they
cannot say anything else than what will happen. What becomes of running pods is what the updater's plan answers for the
workload in the same files, by the updater's default flags; what a cluster adds is for `trellis explain`.
"""

from __future__ import annotations

from typing import Any, Final

from trellis.api.buffer import Buffer
from trellis.api.hvpa import Hvpa
from trellis.api.kwok_groups import KwokNodeGroup
from trellis.api.resolve import resolve_buffer, resolve_hvpa, resolve_vpa
from trellis.api.scenario import Scenario
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.lint.check import Checked
from trellis.core.lint.traps import Ours
from trellis.core.lint.workloads import Workloads
from trellis.core.sizing.governors import hvpa_governor, vpa_governor
from trellis.reports.describe.buffer import buffer_sentences
from trellis.reports.describe.hvpa import hvpa_sentences
from trellis.reports.describe.kwok_group import kwok_group_sentences
from trellis.reports.describe.running_pods import expected_at
from trellis.reports.describe.scenario import scenario_sentences
from trellis.reports.describe.vpa import vpa_sentences

REFUSED: Final = "Does nothing: it is refused, see below."


def describe_objects(checked: Checked) -> list[dict[str, Any]]:
    """Object, file and sentences for every object of ours, as JSON shows them; one that is refused says so."""
    sound = {id(ours) for ours in checked.sound}
    found = []
    for ours in checked.objects:
        manifest = ours.manifest
        told = sentences(ours, checked.workloads) if id(ours) in sound else [REFUSED]
        found.append({"object": manifest.title, "file": manifest.file, "sentences": told})
    return found


def sentences(ours: Ours, workloads: Workloads) -> list[str]:
    """What one object will do."""
    target = ours.target
    workload = workloads.find(ours.manifest.namespace, *target) if target else None
    match ours.decoded:
        case VerticalPodAutoscaler() as vpa:
            replicas = workload.replicas if workload is not None else None
            expected = expected_at(vpa_governor(vpa), workload, vpa.metadata.annotations, replicas)
            return vpa_sentences(resolve_vpa(vpa), vpa.spec.target_ref, workload, expected)
        case Hvpa() as hvpa:
            meaning = resolve_hvpa(hvpa)
            expected = expected_at(hvpa_governor(hvpa), workload, hvpa.metadata.annotations, meaning.replicas)
            return hvpa_sentences(meaning, hvpa.spec.target_ref, expected)
        case Buffer() as buffer:
            return buffer_sentences(resolve_buffer(buffer))
        case Scenario() as scenario:
            return scenario_sentences(scenario.spec)
        case KwokNodeGroup() as group:
            return kwok_group_sentences(group)
        case _:
            return ["Holds a recommender's history of one container; it does nothing by itself."]
