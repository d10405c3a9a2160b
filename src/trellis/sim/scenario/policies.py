"""Which manifests are in force in each variant of a scenario, and who recommends in it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trellis.api.kinds import HVPA, VPA
from trellis.api.problems import INVALID, Key, Path, Problem
from trellis.api.scenario import ScenarioSpec, ScenarioVariant
from trellis.api.scenario_rules import FIXED
from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.core.recommend.parameters import Parameter, read_parameters
from trellis.sim.figures import read_figures
from trellis.sim.fleet import Document, Variant
from trellis.sim.scenario.policy_manifests import HPA, Policies, target_of


def compile_variants(spec: ScenarioSpec, policies: Policies) -> tuple[Variant, ...]:
    """Every variant with its manifests; without any, requests as written and each policy for itself."""
    objects = {
        each.name: policies.objects(each, ("policies", number)) for number, each in enumerate(spec.policies or ())
    }
    written = spec.variants or [
        ScenarioVariant(name=FIXED, title="requests as written"),
        *(ScenarioVariant(name=each.name, policies=[each.name]) for each in spec.policies or ()),
    ]
    return tuple(
        msgspec.structs.replace(
            _variant(each, objects, ("variants", number), policies.problems),
            without=frozenset(
                at
                for at, workload in enumerate(spec.workloads or ())
                if each.name not in (workload.only_in or (each.name,))
            ),
        )
        for number, each in enumerate(written)
    )


def _variant(
    written: ScenarioVariant, objects: Mapping[str, tuple[Document, ...]], at: Path, problems: list[Problem]
) -> Variant:
    recommender = written.recommender or "default"
    parameters = written.parameters or {}
    problems += _recommender_problems(recommender, parameters, at)
    try:
        read_figures(written.settings or {})
    except InvalidInput as error:
        problems.append(Problem((*at, "settings"), INVALID, error.rule, error.value))
    chosen = [document for name in written.policies or () for document in objects.get(name, ())]
    problems += _lost_wishes(chosen, (*at, "policies"))
    return Variant(
        name=written.name,
        title=written.title or written.name,
        objects=tuple(_served(document, recommender) for document in chosen),
        settings=written.settings or {},
        parameters={recommender: parameters} if parameters else {},
    )


def _lost_wishes(chosen: Sequence[Document], at: Path) -> Iterator[Problem]:
    """HPAs for Hvpas that the variant does not have: one comes from another policy, or not at all."""
    hvpas = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in chosen if each["kind"] == HVPA.name}
    for each in chosen:
        namespace, kind, name = target_of(each)
        if each["kind"] == HPA and kind == HVPA.name and (namespace, name) not in hvpas:
            rule = f"the HPA {each['metadata']['name']} is for the Hvpa {namespace}/{name}, which this variant has not"
            yield Problem(at, INVALID, rule, name)


def _served(document: Document, recommender: str) -> Document:
    """A VPA that names its recommender, unless it does so already or means the default one."""
    spec = document.get("spec") or {}
    if document.get("kind") != VPA.name or recommender == "default" or spec.get("recommenders"):
        return document
    return {**document, "spec": {**spec, "recommenders": [{"name": recommender}]}}


def _recommender_problems(name: str, parameters: Mapping[str, str], at: Path) -> Iterator[Problem]:
    known = built_in_recommenders()
    if name not in known:
        rule = f"there is no such recommender; there are {', '.join(known)}"
        yield Problem((*at, "recommender"), INVALID, rule, name, suggestion=nearest(name, known))
        return
    declared: Sequence[Parameter] = known[name].parameters
    for problem in read_parameters(declared, parameters).problems:
        yield msgspec.structs.replace(problem, path=(*at, "parameters", Key(str(problem.path[-1]))))
