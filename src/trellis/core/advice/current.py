"""What do containers ask for now? What most pods of a workload have, resized ones included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from trellis.api.kube.observed_pods import ObservedPod, ObservedResources
from trellis.api.kube.pods import PodTemplateSpec
from trellis.core.advice.surveyed import Amount, SurveyedContainer
from trellis.core.model.pods import cpu_millicores, memory_bytes, resources_now

_Texts = tuple[str, str, str, str]


def current_sizes(pods: Sequence[ObservedPod]) -> tuple[SurveyedContainer, ...]:
    """Every container that any of the pods has; where as many have one size as another, that of the later pod."""
    seen: dict[str, list[_Texts]] = {}
    sidecars: set[str] = set()
    for pod in sorted(pods, key=_age):
        sidecars |= {each.name for each in pod.spec.init_containers if each.is_sidecar}
        for container in pod.spec.running:
            seen.setdefault(container.name, []).append(_texts(resources_now(pod, container.name)))
    return tuple(_sized(name, found, name in sidecars) for name, found in seen.items())


def template_sizes(template: PodTemplateSpec) -> tuple[SurveyedContainer, ...]:
    """What a template says, of which no pod runs."""
    spec = template.spec
    sidecars = [each for each in spec.init_containers if each.restart_policy == "Always"]
    return tuple(
        SurveyedContainer(
            each.name,
            _amount(each.resources.requests),
            _amount(each.resources.limits),
            is_sidecar=each in sidecars,
        )
        for each in (*spec.containers, *sidecars)
    )


def _age(pod: ObservedPod) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created else 0.0


def _sized(name: str, found: Sequence[_Texts], is_sidecar: bool) -> SurveyedContainer:
    counts = Counter(reversed(found))  # the latest is the first of equals
    usual, many = counts.most_common(1)[0]
    cpu, memory, cpu_limit, memory_limit = usual
    return SurveyedContainer(
        name,
        Amount(cpu_millicores(cpu), memory_bytes(memory)),
        Amount(cpu_millicores(cpu_limit), memory_bytes(memory_limit)),
        differing=len(found) - many,
        is_sidecar=is_sidecar,
    )


def _texts(resources: ObservedResources) -> _Texts:
    requests, limits = resources.requests, resources.limits
    return requests.cpu, requests.memory, limits.cpu, limits.memory


def _amount(texts: Mapping[str, str]) -> Amount:
    return Amount(cpu_millicores(texts.get("cpu", "")), memory_bytes(texts.get("memory", "")))
