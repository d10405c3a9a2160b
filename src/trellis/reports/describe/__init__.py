"""What an object will do, in plain sentences.

The sentences are made from the same effective meaning (`trellis.api.resolve`) that the controllers act on, so they
cannot say anything else than what will happen. They state facts of the object; what a cluster adds is for `trellis
explain`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trellis.api.buffer import Buffer
from trellis.api.hvpa import Hvpa
from trellis.api.resolve import resolve_buffer, resolve_hvpa, resolve_vpa
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.lint.check import Checked
from trellis.core.lint.traps import Ours
from trellis.core.lint.workloads import Workloads
from trellis.reports.describe.buffer import buffer_sentences
from trellis.reports.describe.hvpa import hvpa_sentences
from trellis.reports.describe.vpa import vpa_sentences


def describe_objects(checked: Checked) -> Iterator[str]:
    """A heading and indented sentences for every object of ours; one that is refused says so."""
    refused = {(finding.file, finding.document, finding.object) for finding in checked.findings if finding.is_error}
    for ours in checked.objects:
        manifest = ours.manifest
        yield f"{manifest.title} ({manifest.file})"
        if (manifest.file, manifest.document.number, manifest.title) in refused:
            yield "  Does nothing: it is refused, see below."
        else:
            yield from (f"  {sentence}" for sentence in sentences(ours, checked.workloads))
        yield ""


def sentences(ours: Ours, workloads: Workloads) -> list[str]:
    """What one object will do."""
    target = ours.target
    workload = workloads.find(ours.manifest.namespace, *target) if target else None
    match ours.decoded:
        case VerticalPodAutoscaler() as vpa:
            return vpa_sentences(resolve_vpa(vpa), vpa.spec.target_ref, workload)
        case Hvpa() as hvpa:
            return hvpa_sentences(resolve_hvpa(hvpa), hvpa.spec.target_ref)
        case Buffer() as buffer:
            return buffer_sentences(resolve_buffer(buffer))
        case _:
            return ["Holds a recommender's history of one container; it does nothing by itself."]
