"""Which manifests does a policy of a scenario put into the cluster? Made for its workloads, written out, or in files.

A VPA, an HPA, an Hvpa or a Buffer is taken only if what it is about is there: a typo would make a variant the same as
none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from trellis.api.kinds import BUFFER, HVPA, VPA, Kind
from trellis.api.kube.decode import convert_object
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscalerSpec
from trellis.api.problems import INVALID, UNSUPPORTED, Path, Problem
from trellis.api.scenario import PolicyForEach, ScenarioPolicy
from trellis.api.validate import HPA_VERSION, validate, validate_simulated_hpa
from trellis.base.documents import BrokenDocument, read_documents
from trellis.base.errors import InvalidInput, UnreadableObject
from trellis.base.names import nearest
from trellis.sim.fleet import Document, Workload
from trellis.sim.scaling.hpa_metrics import why_not_simulated
from trellis.sim.scenario.workloads import DEFAULT_NAMESPACE

HPA: Final = "HorizontalPodAutoscaler"
# The bytes of a file that a scenario names; `InvalidInput` says why there are none.
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
# What a template of `forEach` is the spec of: the field, the object that is made, and where its target goes.
_MADE: Final = (
    ("spec", VPA.api_version, VPA.name, "targetRef"),
    ("hpa", HPA_VERSION, HPA, "scaleTargetRef"),
    ("hvpa", HVPA.api_version, HVPA.name, "targetRef"),
)


def target_of(document: Document) -> tuple[str, str, str]:
    """Namespace, kind and name of what an autoscaler is about."""
    spec = document.get("spec") or {}
    target = spec.get("scaleTargetRef" if document.get("kind") == HPA else "targetRef") or {}
    namespace = (document.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE
    return namespace, str(target.get("kind")), str(target.get("name"))


class Policies:
    """The manifests of every policy, and what is wrong with them."""

    def __init__(self, workloads: Sequence[Workload], files: FileReader, *, keeps_room: bool = False) -> None:
        self._workloads = {(each.namespace, each.kind, each.name): None for each in workloads}
        self._files = files
        self._keeps_room = keeps_room
        self.problems: list[Problem] = []

    def objects(self, policy: ScenarioPolicy, at: Path) -> tuple[Document, ...]:
        """Everything that a policy puts into the cluster."""
        made = list(self._for_each(policy.for_each or (), (*at, "forEach")))
        for number, document in enumerate(policy.objects or ()):
            made += self._accepted(document, (*at, "objects", number), "")
        for number, name in enumerate(policy.files or ()):
            made += self._file(name, (*at, "files", number))
        return tuple(made)

    def _for_each(self, templates: Sequence[PolicyForEach], at: Path) -> Iterator[Document]:
        for number, each in enumerate(templates):
            self.problems += [told.below((*at, number, "hvpa")) for told in _unanswered(each.hvpa or {})]
        for field, api_version, made, reference in _MADE:
            chosen = [each for each in templates if _makes(each) == field]
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
            rule = f"{where}only {', '.join(_KINDS[:-1])} and {_KINDS[-1]} mean something in a simulation"
            self.problems.append(Problem((*at, "kind") if not where else at, UNSUPPORTED, rule, kind))
            return
        wrong = list(_wrong_with(document))
        self.problems += [Problem(at, INVALID, f"{where}{each}", kind) for each in wrong]
        if wrong or (kind != _LIMITS and not self._has_target(document, at, where)):
            return
        metadata = document.get("metadata") or {}
        yield {**document, "metadata": {**metadata, "namespace": metadata.get("namespace") or DEFAULT_NAMESPACE}}

    def _has_target(self, document: dict[str, Any], at: Path, where: str) -> bool:
        namespace, kind, name = target_of(document)
        is_hpa, is_buffer = document.get("kind") == HPA, document.get("kind") == BUFFER.name
        if is_buffer and not self._keeps_room:
            rule = f"{where}a Buffer means something only where there are nodeGroups"
            self.problems.append(Problem(at, UNSUPPORTED, rule, BUFFER.name))
            return False
        if (is_hpa and kind == HVPA.name) or (is_buffer and kind not in _API_VERSIONS):
            # Which Hvpas there are is a matter of the variant, and a class of nodes is one by its label.
            return True
        path: Path = at if where else (*at, "spec", "scaleTargetRef" if is_hpa else "targetRef", "name")
        if (namespace, kind, name) not in self._workloads:
            names = tuple(each for space, what, each in self._workloads if (space, what) == (namespace, kind))
            rule = f"{where}the scenario has no {kind} {namespace}/{name}"
            self.problems.append(Problem(path, INVALID, rule, name, suggestion=nearest(name, names)))
            return False
        if document.get("kind") not in (VPA.name, BUFFER.name) and kind not in _SCALED:
            self.problems.append(Problem(path, INVALID, f"{where}a {kind} has no scale", name))
            return False
        return True


def _wrong_with(document: dict[str, Any]) -> Iterator[str]:
    """What keeps a manifest from meaning anything."""
    kind = str(document.get("kind"))
    if kind == HPA:
        yield from (str(problem) for problem in validate_simulated_hpa(document) if problem.is_error)
    elif kind in _OURS:
        wrong = [problem for problem in validate(_OURS[kind], document) if problem.is_error]
        if kind == HVPA.name and not wrong:
            wrong = [problem.below(("spec",)) for problem in _unanswered(document["spec"])]
        yield from map(str, wrong)
    else:
        try:
            convert_object(document, LimitRange)
        except UnreadableObject as error:
            yield error.rule


def _unanswered(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Metrics in the HPA of an Hvpa that nobody answers here, below its spec."""
    template = ((spec.get("hpa") or {}).get("template") or {}).get("spec") or {}
    place = ("hpa", "template", "spec")
    try:
        metrics = convert_object(template, HorizontalPodAutoscalerSpec).metrics
    except UnreadableObject as error:
        yield Problem(place, INVALID, error.rule, "an HPA's spec")
        return
    for number, metric in enumerate(metrics):
        if told := why_not_simulated(metric):
            yield Problem((*place, "metrics", number), UNSUPPORTED, told, metric.type)


def _makes(template: PolicyForEach) -> str:
    """The field that an entry is about; the VPA if it has none."""
    return next((name for name, *_ in _MADE[1:] if getattr(template, name) is not None), _MADE[0][0])


def _matches(template: PolicyForEach, namespace: str, name: str) -> bool:
    patterns = template.workloads or ("*",)
    return any(fnmatchcase(name, each) or fnmatchcase(f"{namespace}/{name}", each) for each in patterns)
