"""Which claims for volumes are in use, and by how many pods? Some may be used by one alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trellis.api.kube.pods import Pod
from trellis.core.model.keys import Key


def claims_of(pod: Pod) -> Iterator[Key]:
    """The claims that a pod names."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield pod.metadata.namespace, volume.persistent_volume_claim.claim_name


class ClaimHolders:
    """Counts the pods that have a node, by the claims they name."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()

    def __contains__(self, claim: object) -> bool:
        return claim in self._counts

    def add(self, pod: Pod) -> set[Key]:
        """A pod has a node; the claims that nobody has used before."""
        before = {claim for claim in claims_of(pod) if claim not in self._counts}
        self._counts.update(claims_of(pod))
        return before

    def remove(self, pod: Pod) -> set[Key]:
        """It has none any more; the claims that nobody uses now."""
        self._counts.subtract(claims_of(pod))
        free = {claim for claim in claims_of(pod) if not self._counts[claim]}
        for claim in free:
            del self._counts[claim]
        return free
