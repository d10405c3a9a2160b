"""The scope of a survey: the filter of workloads, and the objects that are read for them.

A filter selects by namespace, label and kind, and by labels that group Jobs. Objects come from a cluster, or from
kube-state-metrics in Prometheus, and are processed alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

import msgspec

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.observed_workloads import ObservedObject
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.base.errors import InvalidInput
from trellis.base.names import check_label_key
from trellis.base.selectors import Selector, parse_selector
from trellis.core.advice.survey.model import ResourceAmount
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.oom_kill_detection import OomKill

# What people call them on a command line, beside their names and plurals.
_SHORT_NAMES: Final = {
    "cj": "cronjob",
    "deploy": "deployment",
    "ds": "daemonset",
    "po": "pod",
    "rc": "replicationcontroller",
    "rs": "replicaset",
    "sts": "statefulset",
}


class WorkloadFilter(msgspec.Struct, frozen=True):
    """Selects workloads; everything by default. A pattern that begins with `!` takes namespaces out again.

    `kinds` are in lower case. Jobs that a person or a pipeline made count as one workload if they have the
    same value of one of `job_labels`, the first of them that they have.
    """

    namespaces: tuple[str, ...] = ()
    selector: Selector = Selector.everything()
    kinds: frozenset[str] = frozenset()
    job_labels: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls,
        namespaces: Sequence[str] = (),
        selector: str = "",
        kinds: Sequence[str] = (),
        job_labels: Sequence[str] = (),
    ) -> WorkloadFilter:
        """A filter from its texts; raises `InvalidInput`."""
        for key in job_labels:
            if problem := check_label_key(key):
                raise InvalidInput(key, f"is not a label key: {problem}")
        return cls(
            tuple(namespaces),
            parse_selector(selector) if selector else Selector.everything(),
            frozenset(_normalize_kind(kind) for kind in kinds),
            tuple(job_labels),
        )

    def covers(self, namespace: str) -> bool:
        """Whether it is one of the namespaces."""
        included = [pattern for pattern in self.namespaces if not pattern.startswith("!")]
        if included and not any(fnmatchcase(namespace, pattern) for pattern in included):
            return False
        return not any(fnmatchcase(namespace, pattern[1:]) for pattern in self.namespaces if pattern.startswith("!"))

    def selects(self, kind: str, labels: Mapping[str, str]) -> bool:
        """Whether a workload in a covered namespace is selected."""
        return (not self.kinds or kind.lower() in self.kinds) and self.selector.matches(labels)

    @property
    def exact_namespaces(self) -> tuple[str, ...]:
        """The namespaces if all are exact names; empty if a pattern may match others."""
        if not self.namespaces or any(set(pattern) & set("*?[!") for pattern in self.namespaces):
            return ()
        return tuple(sorted(set(self.namespaces)))


def _normalize_kind(written: str) -> str:
    """`Deployments`, `deployment` and `deploy` are one kind; an unknown one is taken as it is."""
    kind = written.strip().lower()
    if not kind:
        raise InvalidInput(written, "is not a kind such as deployment")
    kind = _SHORT_NAMES.get(kind, kind)
    return kind[:-1] if kind.endswith("s") and not kind.endswith("ss") and kind[:-1] in _PLURALS else kind


_PLURALS: Final = frozenset({*_SHORT_NAMES.values(), "job", "rollout"})


WorkloadObject: TypeAlias = KubeObject | ObservedObject


class SurveyObjects(msgspec.Struct, frozen=True):
    """The objects in the surveyed namespaces.

    `workloads` are by kind. An object whose kind has a pod template may be without it, where it could not be read.
    `past_pods` ran within the surveyed time and do not exist any more; `intermediate_owners` are the controllers of
    those and others, which may be gone too. `kills` are those that no pod shows any more. `largest_node` is how much
    pods may request of each resource on one node, if nodes were read.
    """

    namespaces: tuple[str, ...] = ()
    pods: Sequence[ObservedPod] = ()
    workloads: Mapping[str, Sequence[WorkloadObject]] = {}
    hpas: Sequence[HorizontalPodAutoscaler] = ()
    vpas: Sequence[VerticalPodAutoscaler] = ()
    limit_ranges: Sequence[LimitRange] = ()
    past_pods: Sequence[ObservedPod] = ()
    intermediate_owners: Mapping[str, Sequence[WorkloadObject]] = {}
    kills: Sequence[OomKill] = ()
    missing: tuple[MissingData, ...] = ()
    largest_node: ResourceAmount = ResourceAmount()
