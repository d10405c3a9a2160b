"""Finds the VPA that a pod of the past belonged to, for history.

Three sources, the surest first: the governor of the pod, if the pod still exists; its labels, if Prometheus kept them;
and its name, which controllers of Kubernetes derive from their own with endings of a known form. Another workload whose
name begins alike is mistaken for the owner only if the rest of its name looks like such an ending.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from trellis.api.kube.observed_pods import ObservedPod, ObservedPodMeta
from trellis.core.cluster.governance import TargetClaim, assign_governors
from trellis.core.cluster.owners import Owners, TargetRef

# Kubernetes draws endings from letters and digits that spell no words: five for a pod, up to ten for a template.
_RANDOM_CHARACTER: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_NAME_SUFFIXES: Final = {
    "Deployment": f"-{_RANDOM_CHARACTER}{{1,10}}-{_RANDOM_CHARACTER}{{5}}",
    "ReplicaSet": f"-{_RANDOM_CHARACTER}{{5}}",
    "ReplicationController": f"-{_RANDOM_CHARACTER}{{5}}",
    "DaemonSet": f"-{_RANDOM_CHARACTER}{{5}}",
    "Job": f"(-[0-9]+)?-{_RANDOM_CHARACTER}{{5}}",
    "CronJob": f"-[0-9]+(-[0-9]+)?-{_RANDOM_CHARACTER}{{5}}",
    "StatefulSet": "-[0-9]+",
}


def build_pod_name_pattern(target: TargetRef) -> re.Pattern[str] | None:
    """What the names of a target's pods look like; None for unknown kinds."""
    ending = _NAME_SUFFIXES.get(target.kind)
    return re.compile(re.escape(target.name) + ending) if ending and target.name else None


# Stored labels, by namespace and name of the pod.
PodLabels = Mapping[tuple[str, str], Mapping[str, str]]

_NO_OWNERS = Owners({}, {})


class PastPods:
    """The pods of one namespace, those that are gone included. `governors` are those of the pods that exist."""

    def __init__(
        self, claims: Sequence[TargetClaim], governors: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]
    ) -> None:
        original_keys = {_sanitize_key(key): key for claim in claims for key in _list_label_keys(claim)}
        past_pods = [
            _build_past_pod(name, pod_labels, original_keys)
            for name, pod_labels in labels.items()
            if name not in governors
        ]
        self._governors = {**assign_governors(claims, past_pods, _NO_OWNERS).governor, **governors}
        named = (
            (build_pod_name_pattern(claim.target), claim) for claim in sorted(claims, key=lambda claim: claim.seniority)
        )
        self._patterns: list[tuple[re.Pattern[str], str]] = [
            (pattern, claim.name) for pattern, claim in named if pattern is not None
        ]
        self._labelled = frozenset(labels)

    def find_governor(self, pod: str) -> str | None:
        """The VPA whose history the pod is part of."""
        vpa_name = self._governors.get(pod)
        if vpa_name is None and pod not in self._labelled:
            vpa_name = next((vpa for pattern, vpa in self._patterns if pattern.fullmatch(pod)), None)
            if vpa_name is not None:
                self._governors[pod] = vpa_name
        return vpa_name


def _list_label_keys(claim: TargetClaim) -> list[str]:
    return [requirement.key for requirement in claim.selector.requirements] if claim.selector else []


def _sanitize_key(key: str) -> str:
    """A label as Prometheus has to write it: `app_kubernetes_io_name`."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", key)


def _build_past_pod(name: str, labels: Mapping[str, str], original_keys: Mapping[str, str]) -> ObservedPod:
    """A pod that is gone, with its labels spelled as selectors spell them."""
    original_labels = {original_keys.get(key, key): value for key, value in labels.items()}
    return ObservedPod(metadata=ObservedPodMeta(name=name, labels=original_labels))
