"""An index of pods by label: a selector is matched against the pods with the rarest of the labels it requires.

pods = informers.follow(PODS, indexes=BY_LABELS)
pods = [pod for pod in candidate_pods(pods, "shop", selector) if selector.matches(pod.metadata.labels)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.pods import Pod
from trellis.base.selectors import Selector
from trellis.core.cluster.store import BY_NAMESPACE, IndexFunction, index_by_namespace
from trellis.kube.watch.informer import Informer

BY_LABEL: Final = "label"

P = TypeVar("P", bound=Pod | ObservedPod)


def _label(namespace: str, key: str, value: str) -> str:
    return f"{namespace}/{key}={value}"


def index_by_label(pod: Pod | ObservedPod) -> tuple[str, ...]:
    """Index by each label, within its namespace."""
    namespace = pod.metadata.namespace
    return tuple(_label(namespace, key, value) for key, value in pod.metadata.labels.items())


# The indexes that an informer of pods needs to be asked.
BY_LABELS: Final[Mapping[str, IndexFunction[Pod | ObservedPod]]] = {
    BY_LABEL: index_by_label,
    BY_NAMESPACE: index_by_namespace,
}


def candidate_pods(pods: Informer[P], namespace: str, selector: Selector) -> Iterable[P]:
    """The pods of a namespace that a selector may choose; whether it does, it has to be asked."""
    choices = [
        [_label(namespace, requirement.key, value) for value in requirement.values]
        for requirement in selector.value_requirements
    ]
    if not choices:
        return pods.by_index(BY_NAMESPACE, namespace)
    rarest = min(choices, key=lambda groups: sum(pods.count(BY_LABEL, group) for group in groups))
    return (pod for group in rarest for pod in pods.by_index(BY_LABEL, group))
