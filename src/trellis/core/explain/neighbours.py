"""Which pods and which autoscalers of a namespace have to do with an Hvpa? Sorted once, whoever is asked about."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from trellis.api.hvpa import Hvpa
from trellis.api.kinds import HVPA
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.scaling import CrossVersionObjectReference, HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING
from trellis.api.parts import TargetReference
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.selectors import Selector
from trellis.core.explain.labelled import ByLabels
from trellis.core.hvpa.surroundings import Surroundings
from trellis.core.hvpa.viewing import HvpaPod, HvpaPodMeta, pods_of
from trellis.core.model.collected import Collected
from trellis.core.model.keys import BY_NAMESPACE

# Kind and name of a target.
_Target: TypeAlias = tuple[str, str]


class Neighbours:
    """Those of one namespace, by what they are about and by their labels."""

    def __init__(self, collected: Collected, namespace: str) -> None:
        self.hvpas = tuple(collected.hvpas.by(BY_NAMESPACE, namespace))
        self._hvpas: defaultdict[_Target, list[Hvpa]] = defaultdict(list)
        self._vpas: defaultdict[_Target, list[VerticalPodAutoscaler]] = defaultdict(list)
        self._hpas: defaultdict[_Target, list[HorizontalPodAutoscaler]] = defaultdict(list)
        for hvpa in self.hvpas:
            self._hvpas[_key(hvpa.spec.target_ref)].append(hvpa)
        for vpa in collected.vpas.by(BY_NAMESPACE, namespace):
            self._vpas[_key(vpa.spec.target_ref)].append(vpa)
        for hpa in collected.hpas.by(BY_NAMESPACE, namespace):
            self._hpas[_key(hpa.spec.scale_target_ref)].append(hpa)
        # Without an Hvpa nobody asks for pods.
        pods = collected.observed_pods.by(BY_NAMESPACE, namespace) if self.hvpas else ()
        self._pods = ByLabels(_with_annotations(collected, pod) for pod in pods)

    def around(self, hvpa: Hvpa) -> Surroundings:
        """The autoscalers about the same target, and those about the Hvpa itself."""
        target = _key(hvpa.spec.target_ref)
        hpas = [*self._hpas[target], *self._hpas[HVPA.name, hvpa.metadata.name]]
        return Surroundings(self._hvpas[target], hpas, self._vpas[target])

    def pods(self, selector: Selector) -> list[HvpaPod]:
        """The pods of a target."""
        return pods_of(self._pods.matching(selector), selector)


def _key(reference: TargetReference | CrossVersionObjectReference) -> _Target:
    return reference.kind, reference.name


def _with_annotations(collected: Collected, pod: ObservedPod) -> HvpaPod:
    """The pod as an Hvpa reads it: annotations tell which containers are boosted."""
    metadata = pod.metadata
    found = collected.pods.get(metadata.namespace, metadata.name)
    notes = found.metadata.annotations if found is not None else NOTHING
    named = {field: getattr(metadata, field) for field in metadata.__struct_fields__}
    return HvpaPod(metadata=HvpaPodMeta(**named, annotations=notes), spec=pod.spec, status=pod.status)
