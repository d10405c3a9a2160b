"""Which claims for volumes are in use, by how many pods, and who waits for one? Some may be used by one pod alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from trellis.api.kube.pods import Pod
from trellis.core.model.keys import Key, key_of


def claims_of(pod: Pod) -> Iterator[Key]:
    """The claims that a pod names."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield pod.metadata.namespace, volume.persistent_volume_claim.claim_name


class ClaimHolders:
    """Counts the pods that have a node, by the claims they name; knows those that wait for a claim for one pod."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()
        self._waiting: dict[Key, dict[Key, Pod]] = {}

    def __contains__(self, claim: object) -> bool:
        return claim in self._counts

    def waiting(self, claim: Key) -> list[Pod]:
        """Who waits for a claim that is for one pod."""
        return [*self._waiting.get(claim, {}).values()]

    def wait(self, pod: Pod, claims: Iterable[Key]) -> None:
        """A pod waits for a node with these claims, each of which is for one pod."""
        for claim in claims:
            self._waiting.setdefault(claim, {})[key_of(pod)] = pod

    def wait_no_more(self, pod: Pod) -> None:
        """It waits no longer."""
        for claim in claims_of(pod):
            waiting = self._waiting.get(claim, {})
            waiting.pop(key_of(pod), None)
            if not waiting:
                self._waiting.pop(claim, None)

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
