"""What does the API server hold of an Hvpa in a simulation, and what does its controller remember of it?"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.api.hvpa import Hvpa, HvpaStatus, ResourceTotals
from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import Scale, ScaleSpec, ScaleStatus
from trellis.api.vpa import PodRecommendation
from trellis.base.errors import InvalidInput
from trellis.core.hvpa import Memory, Plan, hpa_demand_of, recommendation_of
from trellis.core.hvpa.reading import meaning_of
from trellis.core.hvpa.viewing import HvpaPod
from trellis.core.model.keys import key_of
from trellis.core.resize.governed import Workload
from trellis.sim.kernel import Ticket
from trellis.sim.observing import hvpa_pod


class KnownHvpa:
    """One Hvpa: the object as it is now, what it means, what is remembered, and when it is looked at next."""

    def __init__(self, hvpa: Hvpa) -> None:
        meaning, refused = meaning_of(hvpa)
        if meaning is None:
            raise InvalidInput("/".join(key_of(hvpa)), f"this Hvpa is refused: {refused}")
        self.hvpa = hvpa
        self.meaning = meaning
        self.memory = Memory()
        self.verdict = ""
        self.look: Ticket | None = None
        reference = hvpa.spec.target_ref
        self.target: Workload = (hvpa.metadata.namespace, reference.kind, reference.name)
        # By UID: most pods are the same from look to look.
        self._pods: dict[str, tuple[Pod, HvpaPod]] = {}

    @property
    def published(self) -> PodRecommendation | None:
        """The size in its status."""
        return self.hvpa.status.recommendation if self.hvpa.status is not None else None

    @property
    def scale(self) -> Scale | None:
        """The wish, and what the target has. None before the first look, when nobody has given it a count."""
        spec, status = self.hvpa.spec, self.hvpa.status
        if spec.replicas is None or status is None:
            return None
        found = ScaleStatus(status.replicas or 0, status.selector or "")
        return Scale(self.hvpa.metadata, ScaleSpec(spec.replicas), found)

    def wish(self, replicas: int) -> None:
        """Somebody writes `spec.replicas`."""
        metadata = self.hvpa.metadata
        stored = msgspec.structs.replace(metadata, resource_version=str(int(metadata.resource_version) + 1))
        spec = msgspec.structs.replace(self.hvpa.spec, replicas=replicas)
        self.hvpa = msgspec.structs.replace(self.hvpa, metadata=stored, spec=spec)

    def total(self, totals: ResourceTotals) -> None:
        """The recommender writes `status.totals`."""
        self._write(msgspec.structs.replace(self.hvpa.status or HvpaStatus(), totals=totals))

    def publish(self, made: Plan, scale: Scale) -> bool:
        """Write into the status what a plan comes to; whether the size is another one now."""
        before = self.hvpa.status or HvpaStatus()
        status = msgspec.structs.replace(
            before,
            replicas=scale.status.replicas,
            selector=scale.status.selector,
            recommendation=recommendation_of(made),
            hpa=hpa_demand_of(made),
        )
        self._write(status)
        return status.recommendation != before.recommendation

    def seen(self, pods: Iterable[Pod]) -> list[HvpaPod]:
        """Pods, as far as an Hvpa looks at them."""
        before, self._pods = self._pods, {}
        for pod in pods:
            same = before.get(pod.metadata.uid)
            self._pods[pod.metadata.uid] = same if same is not None and same[0] is pod else (pod, hvpa_pod(pod))
        return [seen for _, seen in self._pods.values()]

    def _write(self, status: HvpaStatus) -> None:
        self.hvpa = msgspec.structs.replace(self.hvpa, status=status)
