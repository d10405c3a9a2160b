"""Describes a VerticalPodAutoscaler in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.api.kinds.parts import TargetReference
from trellis.api.kinds.vpa import ANY_CONTAINER
from trellis.api.resolve import Boost, BoostKind, ChangeRequirement, EffectiveContainerPolicy, EffectiveVpa, UpdateMode
from trellis.api.resolve.vpa import RESOURCES
from trellis.base.wording import RESOURCE_WORDS
from trellis.core.explain.update_preview import UpdatePreview
from trellis.core.lint.workloads import WorkloadManifest
from trellis.reports.describe.running_pods import describe_change, describe_exceptions, describe_minimum
from trellis.reports.text.phrases import format_bounds, format_duration, join_words, spell_factor, spell_number

_MODES = {
    UpdateMode.OFF: "Recommends requests for the pods of {target} and applies none of them.",
    UpdateMode.INITIAL: "New pods of {target} get the recommended requests; running pods are not changed.",
}
# Where the number of replicas is not known, what the mode does is all there is to say.
_CHANGES_BY_MODE = {
    UpdateMode.RECREATE: "running pods that differ too much from them are evicted and recreated",
    UpdateMode.IN_PLACE_OR_RECREATE: "running pods are resized in place, and evicted if that fails",
    UpdateMode.IN_PLACE: "running pods are resized in place and never evicted",
}
_EVICTING = frozenset({UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE})
_IN_PLACE = frozenset({UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE})
_CHANGES = {
    ChangeRequirement.HIGHER: "higher than",
    ChangeRequirement.HIGHER_OR_EQUAL: "at least",
    ChangeRequirement.LOWER: "lower than",
    ChangeRequirement.LOWER_OR_EQUAL: "at most",
    ChangeRequirement.NEVER: "in a relation unknown to this version to",
}


def describe_vpa(
    vpa: EffectiveVpa, target: TargetReference, workload: WorkloadManifest | None, expected: tuple[UpdatePreview, ...]
) -> list[str]:
    """Mode, policies, requirements, boost, recommender: in the order in which they matter.

    `expected` is what the updater's plan answers for the workload, at the least and at the most replicas.
    """
    name = f"{target.kind} {target.name}"
    sentences = list(_describe_mode(vpa, name, expected))
    sentences += _describe_policies(vpa)
    sentences += _describe_requirements(vpa)
    sentences += _describe_boosts(vpa, name, workload)
    if vpa.parameters:
        settings = join_words([f"{key}={value}" for key, value in sorted(vpa.parameters.items())])
        sentences.append(f"The recommender {vpa.recommender} computes the recommendation, with {settings}.")
    else:
        sentences.append(f"The recommender {vpa.recommender} computes the recommendation.")
    return sentences


def _describe_mode(vpa: EffectiveVpa, name: str, expected: tuple[UpdatePreview, ...]) -> Iterator[str]:
    """What the mode does to pods of this workload."""
    if vpa.mode in _MODES:
        yield _MODES[vpa.mode].format(target=name)
        return
    changes = describe_change(expected[-1]) if expected else _CHANGES_BY_MODE[vpa.mode]
    yield f"New pods of {name} get the recommended requests; {changes}."
    yield from describe_exceptions(name, expected) if expected else describe_minimum(vpa)


def _describe_policies(vpa: EffectiveVpa) -> Iterator[str]:
    for name, container in vpa.containers.items():
        subject = "Every container without a policy of its own" if name == ANY_CONTAINER else f"Container {name}"
        if not container.is_scaled:
            yield f"{subject} keeps its own requests."
            continue
        rules = list(_describe_limits(container))
        if rules:
            yield f"{subject}: {'; '.join(rules)}."


def _describe_limits(container: EffectiveContainerPolicy) -> Iterator[str]:
    if not container.controlled:
        yield "neither CPU nor memory is sized"
    elif len(container.controlled) < len(RESOURCES):
        yield f"only {RESOURCE_WORDS[container.controlled[0]]} is sized"
    for resource in container.controlled:
        least, most = container.min_allowed.get(resource), container.max_allowed.get(resource)
        if least is not None or most is not None:
            yield f"{RESOURCE_WORDS[resource]} {format_bounds(least, most)}"
    if not container.scales_limits:
        yield "limits stay as they are"


def _describe_requirements(vpa: EffectiveVpa) -> Iterator[str]:
    if not vpa.requirements:
        return
    comparisons = [
        f"the target for {join_words([RESOURCE_WORDS.get(r, r) for r in sorted(item.resources)], 'or')} is "
        f"{_CHANGES[item.change]} the request"
        for item in vpa.requirements
    ]
    if vpa.mode in _EVICTING:
        yield f"A running pod is evicted only if, for one of its containers, {join_words(comparisons)}."
    if vpa.mode in _IN_PLACE and vpa.requirements_for_eviction_only:
        yield "Resizes in place are not restricted."
    elif vpa.mode in _IN_PLACE and vpa.mode not in _EVICTING:
        yield f"A resource is resized only if its own target meets the requirements: {join_words(comparisons)}."
    elif vpa.mode in _IN_PLACE:
        free = [RESOURCE_WORDS[name] for name in RESOURCES if not any(name in r.resources for r in vpa.requirements)]
        also = f"; {join_words(free)} is not restricted" if free else ""
        yield f"In place, a resource is changed only if its own target meets the requirements that list it{also}."


def _describe_boosts(vpa: EffectiveVpa, target: str, workload: WorkloadManifest | None) -> Iterator[str]:
    """One sentence per group of containers that are boosted alike."""
    named = list(workload.names) if workload else [name for name in vpa.containers if name != ANY_CONTAINER]
    groups: dict[tuple[Boost, bool], list[str]] = {}
    for name in named:
        meaning = vpa.get_container(name)
        if meaning.boost is not None:
            groups.setdefault((meaning.boost, _starts_from_recommendation(vpa, meaning)), []).append(name)
    rest = vpa.get_container(ANY_CONTAINER)
    for (boost, recommended), names in groups.items():
        all_containers = workload is not None and len(names) == len(named)
        yield _describe_boost(
            _describe_containers(names, target, all_containers), boost, recommended, plural=len(names) > 1
        )
    spared = [name for name in named if rest.boost is not None and vpa.get_container(name).boost is None]
    if spared:
        yield f"Not boosted: {join_words(spared)}."
    if workload is None and rest.boost is not None:
        containers = "Every other container" if named else "Every container"
        yield _describe_boost(
            f"{containers} of {target}", rest.boost, _starts_from_recommendation(vpa, rest), plural=False
        )


def _describe_containers(names: list[str], target: str, all_containers: bool) -> str:
    if all_containers and len(names) > 1:
        return f"The {spell_number(len(names))} containers of {target}"
    noun = "containers" if len(names) > 1 else "container"
    return f"The {noun} {join_words(names)} of {target}"


def _starts_from_recommendation(vpa: EffectiveVpa, container: EffectiveContainerPolicy) -> bool:
    """Whether the boost starts from the recommendation or from the container's own request."""
    return vpa.mode is not UpdateMode.OFF and container.is_scaled and "cpu" in container.controlled


def _describe_boost(containers: str, boost: Boost, recommended: bool, plural: bool) -> str:
    starts, owner = ("start", "their") if plural else ("starts", "its")
    requests = "they request" if plural else "it requests"
    if boost.kind is BoostKind.FACTOR:
        how = f"{spell_factor(boost.factor)} " + (f"{owner} recommended CPU" if recommended else f"the CPU {requests}")
    else:
        how = f"{boost.quantity} CPU more than " + ("recommended" if recommended else requests)
    until = (
        "until the pod is Ready" if not boost.duration.nanos else f"until {format_duration(boost.duration)} after Ready"
    )
    give_up = (
        f", or until {format_duration(boost.give_up_after)} after the start if it never is"
        if boost.give_up_after
        else ""
    )
    return f"{containers} {starts} with {how} {until}{give_up}."
