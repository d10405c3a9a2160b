"""How many pods is a workload to have? The scale of Deployments and StatefulSets, read and written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from trellis.api.kube.scaling import Scale, ScaleSpec, ScaleStatus
from trellis.base.selectors import parse_selector, selector_from_object
from trellis.core.model.told import Told
from trellis.sim.cluster.state import State

_SCALED: Final = ("Deployment", "StatefulSet")


class Scaling:
    """The API server, as far as it serves `/scale` of workloads. What is written there, controllers see to."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._numbers = {
            (each.namespace, each.kind, each.name): number
            for number, each in enumerate(state.fleet.workloads)
            if each.kind in _SCALED
        }
        self._by_namespace: dict[str, list[int]] = {}
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        for number, (each, template) in enumerate(zip(state.fleet.workloads, state.templates, strict=True)):
            self._by_namespace.setdefault(each.namespace, []).append(number)
            for label, value in template.metadata.labels.items():
                self._by_label.setdefault((each.namespace, label, value), []).append(number)
        self._selectors = [str(selector_from_object(each.selector.match_labels)) for each in state.templates]

    def scale(self, namespace: str, kind: str, name: str) -> Scale | None:
        """The count asked for, and the pods there are; None if there is no such workload."""
        state, number = self._state, self._numbers.get((namespace, kind, name))
        found = state.objects[number] if number is not None else None
        if number is None or found is None:
            return None
        status = ScaleStatus(int(state.present[number]), self._selectors[number])
        return Scale(found.metadata, ScaleSpec(state.replicas[number]), status)

    def selected(self, namespace: str, selector: str) -> tuple[int, ...]:
        """The numbers of workloads whose pods a selector means."""
        read = parse_selector(selector)
        first = next(iter(read.wanted), None)
        if first is None:
            found: Iterable[int] = self._by_namespace.get(namespace, ())
        else:
            found = (each for value in first.values for each in self._by_label.get((namespace, first.key, value), ()))
        return tuple(each for each in found if read.matches(self._state.templates[each].metadata.labels))

    def set_scale(self, namespace: str, kind: str, name: str, replicas: int, version: str) -> Told:
        """Ask for another count; with a `version`, only if the workload is still of that one."""
        state, number = self._state, self._numbers.get((namespace, kind, name))
        found: Any = state.objects[number] if number is not None else None
        if number is None or found is None:
            return Told.GONE
        if replicas < 0:
            return Told.INVALID
        metadata = found.metadata
        if version and version != metadata.resource_version:
            return Told.CONFLICT
        if replicas == state.replicas[number]:
            return Told.APPLIED
        state.replicas[number] = replicas
        state.tally.scalings[number] += 1
        newer = msgspec.structs.replace(metadata, resource_version=state.version(), generation=metadata.generation + 1)
        spec = msgspec.structs.replace(found.spec, replicas=replicas)
        state.publish(number, msgspec.structs.replace(found, metadata=newer, spec=spec))
        state.wake(number)
        return Told.APPLIED
