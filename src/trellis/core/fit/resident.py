"""What do the rules of other pods see of a pod?

Its namespace and labels, and from whom it keeps away itself: a pod that was there first keeps others out.
"""

from __future__ import annotations

import msgspec

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import Pod, PodSpec
from trellis.base.errors import InvalidSelector
from trellis.core.fit.pod_terms import PodTerm, apart_terms


class Resident(msgspec.Struct, frozen=True, gc=False):
    """A pod among others. One that is `leaving` still keeps others away, but is not counted where pods are spread."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    apart: tuple[PodTerm, ...] = ()
    leaving: bool = False

    @classmethod
    def of(cls, pod: Pod) -> Resident:
        """Of a pod that has its node. Terms that cannot be read keep nobody away."""
        try:
            return resident_of(pod.spec, pod.metadata)
        except InvalidSelector:
            return resident_of(PodSpec(), pod.metadata)


def resident_of(spec: PodSpec, metadata: ObjectMeta) -> Resident:
    """Of any pod; terms that cannot be read are refused."""
    return Resident(
        namespace=metadata.namespace,
        labels=tuple(sorted(metadata.labels.items())),
        apart=apart_terms(spec, metadata),
        leaving=metadata.deletion_timestamp is not None,
    )
