"""Variants of a scenario: the manifests of its policies in each of them, its recommender and settings.

Manifests are generated for workloads, written out, or in files. A VPA, an HPA, an Hvpa or a Buffer is accepted only if
its target exists: a typo would make a variant the same as none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscalerSpec
from trellis.api.problems import INVALID, UNSUPPORTED, MapKey, Path, ValidationProblem
from trellis.api.registry import BUFFER, HVPA, VPA, Kind
from trellis.api.rules.scenario import FIXED
from trellis.api.scenario.spec import PolicyForEach, ScenarioPolicy, ScenarioSpec, ScenarioVariant
from trellis.api.validation import HPA_VERSION, validate, validate_simulated_hpa
from trellis.base.errors import InvalidInput, UnreadableObject
from trellis.base.names import suggest_name
from trellis.base.yaml.documents import BrokenDocument, read_documents
from trellis.core.recommend.parameters import Parameter, read_parameters
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.sim.components.hpa_metrics import find_unsupported
from trellis.sim.components.settings import read_flags
from trellis.sim.fleet import Document, SimulatedWorkload, Variant
from trellis.sim.scenario.workloads import DEFAULT_NAMESPACE

HPA: Final = "HorizontalPodAutoscaler"
# The bytes of a file that a scenario names; `InvalidInput` gives the reason if there are none.
FileReader: TypeAlias = Callable[[str], bytes]

_LIMITS: Final = "LimitRange"
_KINDS: Final = (VPA.name, HPA, HVPA.name, BUFFER.name, _LIMITS)
_OURS: Final[Mapping[str, Kind]] = {VPA.name: VPA, HVPA.name: HVPA, BUFFER.name: BUFFER}
_API_VERSIONS: Final = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}
_SCALED: Final = ("Deployment", "StatefulSet")
# What a template of `forEach` is the spec of: the field, the object that is generated, and where its target goes.
_MADE: Final = (
    ("spec", VPA.api_version, VPA.name, "targetRef"),
    ("hpa", HPA_VERSION, HPA, "scaleTargetRef"),
    ("hvpa", HVPA.api_version, HVPA.name, "targetRef"),
)


def read_target(document: Document) -> tuple[str, str, str]:
    """Namespace, kind and name of the target of an autoscaler."""
    spec = document.get("spec") or {}
    target = spec.get("scaleTargetRef" if document.get("kind") == HPA else "targetRef") or {}
    namespace = (document.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE
    return namespace, str(target.get("kind")), str(target.get("name"))


class PolicyManifests:
    """The manifests of every policy, and their problems."""

    def __init__(
        self, workloads: Sequence[SimulatedWorkload], files: FileReader, *, orders_nodes: bool = False
    ) -> None:
        self._workloads = {(workload.namespace, workload.kind, workload.name): None for workload in workloads}
        self._files = files
        self._orders_nodes = orders_nodes
        self.problems: list[ValidationProblem] = []

    def objects(self, policy: ScenarioPolicy, at: Path) -> tuple[Document, ...]:
        """All objects of a policy."""
        made = list(self._generate(policy.for_each or (), (*at, "forEach")))
        for number, document in enumerate(policy.objects or ()):
            made += self._accept(document, (*at, "objects", number), "")
        for number, name in enumerate(policy.files or ()):
            made += self._read_file(name, (*at, "files", number))
        return tuple(made)

    def _generate(self, templates: Sequence[PolicyForEach], at: Path) -> Iterator[Document]:
        for number, each in enumerate(templates):
            self.problems += [
                problem.with_prefix((*at, number, "hvpa")) for problem in _find_unsupported_metrics(each.hvpa or {})
            ]
        for field, api_version, made, reference in _MADE:
            chosen = [template for template in templates if _find_field(template) == field]
            for namespace, kind, name in self._workloads:
                template = next((each for each in chosen if _matches(each, namespace, name)), None)
                if template is None or (made != VPA.name and kind not in _SCALED):
                    continue
                target = {"apiVersion": _API_VERSIONS[kind], "kind": kind, "name": name}
                yield {
                    "apiVersion": api_version,
                    "kind": made,
                    "metadata": {"namespace": namespace, "name": name},
                    "spec": {reference: target, **(getattr(template, field) or {})},
                }

    def _read_file(self, name: str, at: Path) -> Iterator[Document]:
        try:
            data = self._files(name)
        except InvalidInput as error:
            self.problems.append(ValidationProblem(at, INVALID, error.rule, name))
            return
        for document in read_documents(data):
            where = f"{name}, document {document.number}: "
            if isinstance(document, BrokenDocument):
                result = (f"{where}line {error.line}: {error.rule}" for error in document.errors)
                self.problems += [ValidationProblem(at, INVALID, rule, name) for rule in result]
            elif isinstance(document.value, dict):
                yield from self._accept(document.value, at, where)

    def _accept(self, document: dict[str, Any], at: Path, where: str) -> Iterator[Document]:
        """The manifest with its namespace, if its kind is simulated and its target exists."""
        kind = document.get("kind")
        if kind not in _KINDS:
            rule = f"{where}cannot be simulated; supported kinds: {', '.join(_KINDS)}"
            self.problems.append(ValidationProblem((*at, "kind") if not where else at, UNSUPPORTED, rule, kind))
            return
        wrong = list(_find_problems(document))
        self.problems += [ValidationProblem(at, INVALID, f"{where}{reason}", kind) for reason in wrong]
        if wrong or (kind != _LIMITS and not self._has_target(document, at, where)):
            return
        metadata = document.get("metadata") or {}
        yield {**document, "metadata": {**metadata, "namespace": metadata.get("namespace") or DEFAULT_NAMESPACE}}

    def _has_target(self, document: dict[str, Any], at: Path, where: str) -> bool:
        namespace, kind, name = read_target(document)
        is_hpa, is_buffer = document.get("kind") == HPA, document.get("kind") == BUFFER.name
        if is_buffer and not self._orders_nodes:
            rule = f"{where}a Buffer requires spec.nodeGroups"
            self.problems.append(ValidationProblem(at, UNSUPPORTED, rule, BUFFER.name))
            return False
        if (is_hpa and kind == HVPA.name) or (is_buffer and kind not in _API_VERSIONS):
            # Which Hvpas there are depends on the variant, and a node class is given by a label.
            return True
        path: Path = at if where else (*at, "spec", "scaleTargetRef" if is_hpa else "targetRef", "name")
        if (namespace, kind, name) not in self._workloads:
            names = tuple(
                workload_name
                for workload_namespace, workload_kind, workload_name in self._workloads
                if (workload_namespace, workload_kind) == (namespace, kind)
            )
            rule = f"{where}the scenario has no {kind} {namespace}/{name}"
            self.problems.append(ValidationProblem(path, INVALID, rule, name, suggestion=suggest_name(name, names)))
            return False
        if document.get("kind") not in (VPA.name, BUFFER.name) and kind not in _SCALED:
            self.problems.append(ValidationProblem(path, INVALID, f"{where}a {kind} has no scale subresource", name))
            return False
        return True


def _find_problems(document: dict[str, Any]) -> Iterator[str]:
    """Why a manifest cannot be used."""
    kind = str(document.get("kind"))
    if kind == HPA:
        yield from (str(problem) for problem in validate_simulated_hpa(document) if problem.is_error)
    elif kind in _OURS:
        problems = [problem for problem in validate(_OURS[kind], document) if problem.is_error]
        if kind == HVPA.name and not problems:
            problems = [problem.with_prefix(("spec",)) for problem in _find_unsupported_metrics(document["spec"])]
        yield from map(str, problems)
    else:
        try:
            convert_object(document, LimitRange)
        except UnreadableObject as error:
            yield error.rule


def _find_unsupported_metrics(spec: Mapping[str, Any]) -> Iterator[ValidationProblem]:
    """Metrics in the HPA of an Hvpa that the simulation does not serve, below its spec."""
    template = ((spec.get("hpa") or {}).get("template") or {}).get("spec") or {}
    place = ("hpa", "template", "spec")
    try:
        metrics = convert_object(template, HorizontalPodAutoscalerSpec).metrics
    except UnreadableObject as error:
        yield ValidationProblem(place, INVALID, error.rule, "an HPA's spec")
        return
    for number, metric in enumerate(metrics):
        if reason := find_unsupported(metric):
            yield ValidationProblem((*place, "metrics", number), UNSUPPORTED, reason, metric.type)


def _find_field(template: PolicyForEach) -> str:
    """The field of an entry; the VPA if it has none."""
    return next((name for name, *_ in _MADE[1:] if getattr(template, name) is not None), _MADE[0][0])


def _matches(template: PolicyForEach, namespace: str, name: str) -> bool:
    patterns = template.workloads or ("*",)
    return any(fnmatchcase(name, pattern) or fnmatchcase(f"{namespace}/{name}", pattern) for pattern in patterns)


def compile_variants(spec: ScenarioSpec, policies: PolicyManifests) -> tuple[Variant, ...]:
    """Every variant with its manifests; without any, requests as written and each policy by itself."""
    objects = {
        policy.name: policies.objects(policy, ("policies", number)) for number, policy in enumerate(spec.policies or ())
    }
    written = spec.variants or [
        ScenarioVariant(name=FIXED, title="requests as written"),
        *(ScenarioVariant(name=policy.name, policies=[policy.name]) for policy in spec.policies or ()),
    ]
    return tuple(
        msgspec.structs.replace(
            _variant(variant, objects, ("variants", number), policies.problems),
            without=frozenset(
                at
                for at, workload in enumerate(spec.workloads or ())
                if variant.name not in (workload.only_in or (variant.name,))
            ),
        )
        for number, variant in enumerate(written)
    )


def _variant(
    written: ScenarioVariant, objects: Mapping[str, tuple[Document, ...]], at: Path, problems: list[ValidationProblem]
) -> Variant:
    recommender = written.recommender or "default"
    parameters = written.parameters or {}
    problems += _recommender_problems(recommender, parameters, at)
    try:
        read_flags(written.settings or {})
    except InvalidInput as error:
        problems.append(ValidationProblem((*at, "settings"), INVALID, error.rule, error.value))
    chosen = [document for name in written.policies or () for document in objects.get(name, ())]
    problems += _hpas_without_hvpa(chosen, (*at, "policies"))
    return Variant(
        name=written.name,
        title=written.title or written.name,
        objects=tuple(_with_recommender(document, recommender) for document in chosen),
        settings=written.settings or {},
        parameters={recommender: parameters} if parameters else {},
    )


def _hpas_without_hvpa(chosen: Sequence[Document], at: Path) -> Iterator[ValidationProblem]:
    """HPAs for Hvpas that the variant does not have: their Hvpa comes from another policy, or not at all."""
    hvpas = {
        (document["metadata"]["namespace"], document["metadata"]["name"])
        for document in chosen
        if document["kind"] == HVPA.name
    }
    for document in chosen:
        namespace, kind, name = read_target(document)
        if document["kind"] == HPA and kind == HVPA.name and (namespace, name) not in hvpas:
            rule = (
                f"the HPA {document['metadata']['name']} targets the Hvpa {namespace}/{name}, which this "
                "variant does not have"
            )
            yield ValidationProblem(at, INVALID, rule, name)


def _with_recommender(document: Document, recommender: str) -> Document:
    """A VPA that names its recommender, unless it does so already or uses the default one."""
    spec = document.get("spec") or {}
    if document.get("kind") != VPA.name or recommender == "default" or spec.get("recommenders"):
        return document
    return {**document, "spec": {**spec, "recommenders": [{"name": recommender}]}}


def _recommender_problems(name: str, parameters: Mapping[str, str], at: Path) -> Iterator[ValidationProblem]:
    built_in = create_built_in_recommenders()
    if name not in built_in:
        rule = f"unknown recommender; available: {', '.join(built_in)}"
        yield ValidationProblem((*at, "recommender"), INVALID, rule, name, suggestion=suggest_name(name, built_in))
        return
    declared: Sequence[Parameter] = built_in[name].parameters
    for problem in read_parameters(declared, parameters).problems:
        yield msgspec.structs.replace(problem, path=(*at, "parameters", MapKey(str(problem.path[-1]))))
