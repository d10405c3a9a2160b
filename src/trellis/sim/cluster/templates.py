"""From what are the pods of a workload made? Its template, read once: as the API server stores it, with labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from trellis.api.kube.decode import convert_object
from trellis.api.kube.meta import LabelSelector, ObjectMeta
from trellis.api.kube.pods import PodSpec, PodTemplateSpec
from trellis.sim.cluster.pods import defaulted, running_containers
from trellis.sim.fleet import Workload

# Kubernetes draws endings of names from these, which spell no words.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


# Kinds whose pods run to an end.
TO_AN_END: Final = ("Job", "CronJob")


class Template(msgspec.Struct, frozen=True):
    """What all pods of a workload have in common. `containers` are those that run as long as the pod."""

    metadata: ObjectMeta
    spec: PodSpec
    selector: LabelSelector
    containers: tuple[str, ...]

    @classmethod
    def of(cls, workload: Workload) -> Template:
        """That of a workload; without labels its pods are labelled with its name."""
        read = convert_object(workload.template, PodTemplateSpec)
        labels: Mapping[str, str] = read.metadata.labels or {"app": workload.name}
        metadata = ObjectMeta(labels=labels, annotations=read.metadata.annotations)
        spec = defaulted(read.spec)
        if workload.kind in TO_AN_END and not spec.restart_policy:
            spec = msgspec.structs.replace(spec, restart_policy="OnFailure")
        return cls(
            metadata,
            spec,
            LabelSelector(match_labels=labels),
            tuple(each.name for each in running_containers(spec)),
        )


def ending(number: int, length: int) -> str:
    """An ending for a name, another for each number."""
    found = ""
    for _ in range(length):
        number, rest = divmod(number, len(_LETTERS))
        found = _LETTERS[rest] + found
    return found
