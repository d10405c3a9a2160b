"""Which VPA did a pod of the past belong to?

Three sources, the surest first: who governs the pod, if it is still there; its labels, if somebody kept them; and its
name, which controllers of Kubernetes derive from their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trellis.api.kube.observed_pods import ObservedPod, ObservedPodMeta
from trellis.core.model.owners import Owners
from trellis.core.model.pod_names import names_of_pods
from trellis.core.model.targets import Claim, govern

# Labels that somebody kept, by namespace and name of the pod.
PodLabels = Mapping[tuple[str, str], Mapping[str, str]]

_NOBODY = Owners({}, {})


class PastPods:
    """The pods of one namespace, those that are gone included. `living` is who governs the pods there are."""

    def __init__(
        self, claims: Sequence[Claim], living: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]
    ) -> None:
        spelled = {_sanitised(key): key for claim in claims for key in _keys(claim)}
        gone = [_pod(name, known, spelled) for name, known in labels.items() if name not in living]
        self._known = {**govern(claims, gone, _NOBODY).governor, **living}
        named = ((names_of_pods(claim.target), claim) for claim in sorted(claims, key=lambda claim: claim.seniority))
        self._patterns: list[tuple[re.Pattern[str], str]] = [
            (pattern, claim.name) for pattern, claim in named if pattern is not None
        ]
        self._labelled = frozenset(labels)

    def governor(self, pod: str) -> str | None:
        """The VPA whose history the pod is part of."""
        known = self._known.get(pod)
        if known is None and pod not in self._labelled:
            known = next((vpa for pattern, vpa in self._patterns if pattern.fullmatch(pod)), None)
            if known is not None:
                self._known[pod] = known
        return known


def _keys(claim: Claim) -> list[str]:
    return [each.key for each in claim.selector.requirements] if claim.selector else []


def _sanitised(key: str) -> str:
    """A label as Prometheus has to write it: `app_kubernetes_io_name`."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", key)


def _pod(name: str, labels: Mapping[str, str], spelled: Mapping[str, str]) -> ObservedPod:
    """A pod that is gone, with its labels spelled as selectors spell them."""
    known = {spelled.get(key, key): value for key, value in labels.items()}
    return ObservedPod(metadata=ObservedPodMeta(name=name, labels=known))
