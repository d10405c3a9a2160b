"""Which manifests are in force in each variant of a scenario? VPAs made for its workloads, written out, or in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import msgspec

from trellis.api.kinds import VPA
from trellis.api.kube.decode import convert_object
from trellis.api.kube.policies import LimitRange
from trellis.api.problems import INVALID, UNSUPPORTED, Key, Path, Problem
from trellis.api.scenario import PolicyForEach, ScenarioPolicy, ScenarioSpec, ScenarioVariant
from trellis.api.validate import validate
from trellis.base.documents import BrokenDocument, read_documents
from trellis.base.errors import InvalidInput, UnreadableObject
from trellis.base.names import nearest
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.core.recommend.parameters import Parameter, read_parameters
from trellis.sim.figures import read_figures
from trellis.sim.fleet import Document, Variant, Workload
from trellis.sim.scenario.workloads import DEFAULT_NAMESPACE

FIXED = "fixed"
# The bytes of a file that a scenario names; `InvalidInput` says why there are none.
FileReader: TypeAlias = Callable[[str], bytes]

_KINDS = ("VerticalPodAutoscaler", "LimitRange")
_API_VERSIONS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}


class Policies:
    """The manifests of every policy, and what is wrong with them."""

    def __init__(self, workloads: Sequence[Workload], files: FileReader) -> None:
        self._workloads = {(each.namespace, each.kind, each.name): None for each in workloads}
        self._files = files
        self.problems: list[Problem] = []

    def objects(self, policy: ScenarioPolicy, at: Path) -> tuple[Document, ...]:
        """Everything that a policy puts into the cluster."""
        made = list(self._for_each(policy.for_each or ()))
        for number, document in enumerate(policy.objects or ()):
            made += self._accepted(document, (*at, "objects", number), "")
        for number, name in enumerate(policy.files or ()):
            made += self._file(name, (*at, "files", number))
        return tuple(made)

    def _for_each(self, templates: Sequence[PolicyForEach]) -> Iterator[Document]:
        for namespace, kind, name in self._workloads:
            template = next((each for each in templates if _matches(each, namespace, name)), None)
            if template is not None:
                target = {"apiVersion": _API_VERSIONS[kind], "kind": kind, "name": name}
                yield {
                    "apiVersion": VPA.api_version,
                    "kind": VPA.name,
                    "metadata": {"namespace": namespace, "name": name},
                    "spec": {"targetRef": target, **(template.spec or {})},
                }

    def _file(self, name: str, at: Path) -> Iterator[Document]:
        try:
            data = self._files(name)
        except InvalidInput as error:
            self.problems.append(Problem(at, INVALID, error.rule, name))
            return
        for document in read_documents(data):
            where = f"{name}, document {document.number}: "
            if isinstance(document, BrokenDocument):
                told = (f"{where}line {error.line}: {error.rule}" for error in document.errors)
                self.problems += [Problem(at, INVALID, rule, name) for rule in told]
            elif isinstance(document.value, dict):
                yield from self._accepted(document.value, at, where)

    def _accepted(self, document: dict[str, Any], at: Path, where: str) -> Iterator[Document]:
        """The manifest with its namespace, if it is of a kind that means something here and its target is there."""
        kind = document.get("kind")
        if kind not in _KINDS:
            rule = f"{where}only {' and '.join(_KINDS)} mean something in a simulation"
            self.problems.append(Problem((*at, "kind") if not where else at, UNSUPPORTED, rule, kind))
            return
        wrong = list(_wrong_with(document))
        self.problems += [Problem(at, INVALID, f"{where}{each}", kind) for each in wrong]
        metadata = document.get("metadata") or {}
        namespace = metadata.get("namespace") or DEFAULT_NAMESPACE if not wrong else ""
        if wrong or (kind == VPA.name and not self._has_target(document, namespace, at, where)):
            return
        yield {**document, "metadata": {**metadata, "namespace": namespace}}

    def _has_target(self, document: dict[str, Any], namespace: str, at: Path, where: str) -> bool:
        target = (document.get("spec") or {}).get("targetRef") or {}
        kind, name = str(target.get("kind")), str(target.get("name"))
        if (namespace, kind, name) in self._workloads:
            return True
        path: Path = at if where else (*at, "spec", "targetRef", "name")
        guess = nearest(
            name, tuple(each for space, what, each in self._workloads if (space, what) == (namespace, kind))
        )
        rule = f"{where}the scenario has no {kind} {namespace}/{name}"
        self.problems.append(Problem(path, INVALID, rule, name, suggestion=guess))
        return False


def _wrong_with(document: dict[str, Any]) -> Iterator[str]:
    """What keeps a manifest from meaning anything."""
    if document.get("kind") == VPA.name:
        yield from (str(problem) for problem in validate(VPA, document) if problem.is_error)
        return
    try:
        convert_object(document, LimitRange)
    except UnreadableObject as error:
        yield error.rule


def _matches(template: PolicyForEach, namespace: str, name: str) -> bool:
    patterns = template.workloads or ("*",)
    return any(fnmatchcase(name, each) or fnmatchcase(f"{namespace}/{name}", each) for each in patterns)


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
        _variant(each, objects, ("variants", number), policies.problems) for number, each in enumerate(written)
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
    chosen = (document for name in written.policies or () for document in objects.get(name, ()))
    return Variant(
        name=written.name,
        title=written.title or written.name,
        objects=tuple(_served(document, recommender) for document in chosen),
        settings=written.settings or {},
        parameters={recommender: parameters} if parameters else {},
    )


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
