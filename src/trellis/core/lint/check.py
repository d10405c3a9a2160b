"""Checks a set of manifests, from text to findings; also scenarios, and the API server's answers to a dry run.

Manifests inside a scenario are checked as in a file of their own, at their own lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trellis.api.problems import Path, ValidationProblem
from trellis.api.registry import SCENARIO, Kind
from trellis.api.validation import validate, validate_simulated_hpa
from trellis.base.errors import Invalid, KubeError, NotFound, Unreachable
from trellis.base.reasons import Reason, Severity
from trellis.core.lint.cross_checks import TrellisObject, find_conflicts
from trellis.core.lint.embedded import read_embedded
from trellis.core.lint.findings import NOT_AN_OBJECT, Finding
from trellis.core.lint.formats import FileFormat, KnownKind
from trellis.core.lint.kinds import decode_manifest, recognise_kind
from trellis.core.lint.manifests import Manifest, ManifestSource, read_manifests
from trellis.core.lint.workloads import WorkloadIndex


def check_scenario_manifests(manifest: Manifest, kind: KnownKind) -> Iterator[Finding]:
    """Findings about the objects below `spec.policies` of a scenario; nothing for other kinds.

    Two policies may contain the same object: they are alternatives and never in force together.
    """
    if kind is not SCENARIO:
        return
    for nested in read_scenario_manifests(manifest):
        if not nested.api_version or not nested.kind:
            yield nested.build_finding(NOT_AN_OBJECT, "not a Kubernetes object: apiVersion and kind must be given")
            continue
        recognised, trellis_object, mistyped = recognise_kind(nested)
        yield from mistyped
        if isinstance(trellis_object, Kind):
            yield from (recognised.convert_problem(problem) for problem in validate(trellis_object, recognised.value))
        elif nested.kind == "HorizontalPodAutoscaler":
            yield from (nested.convert_problem(problem) for problem in validate_simulated_hpa(nested.value))


def read_scenario_manifests(manifest: Manifest) -> Iterator[Manifest]:
    """The objects of a scenario, as far as its structure can be read."""
    spec = manifest.value.get("spec")
    policies = spec.get("policies") if isinstance(spec, dict) else None
    for number, policy in enumerate(policies if isinstance(policies, list) else ()):
        objects = policy.get("objects") if isinstance(policy, dict) else None
        for index, value in enumerate(objects if isinstance(objects, list) else ()):
            if isinstance(value, dict):
                place: Path = (*manifest.base_path, "spec", "policies", number, "objects", index)
                yield Manifest(manifest.file, manifest.document, value, place)


class CheckResult(msgspec.Struct, frozen=True):
    """The result of a check. `objects` are of our kinds; other objects were read only where these refer to them."""

    findings: tuple[Finding, ...]
    objects: tuple[TrellisObject, ...]
    workloads: WorkloadIndex
    files: int
    documents: int

    @property
    def valid_objects(self) -> list[TrellisObject]:
        """The objects without an error."""
        invalid = {(finding.file, finding.document, finding.object) for finding in self.findings if finding.is_error}
        return [trellis_object for trellis_object in self.objects if _identity(trellis_object.manifest) not in invalid]

    def with_findings(self, findings: Iterable[Finding]) -> CheckResult:
        """The result with further findings."""
        return msgspec.structs.replace(self, findings=(*self.findings, *findings))

    @property
    def errors(self) -> int:
        """How many findings make the check fail."""
        return sum(finding.is_error for finding in self.findings)

    @property
    def warnings(self) -> int:
        """How many findings are warnings."""
        return len(self.findings) - self.errors


def _identity(manifest: Manifest) -> tuple[str, int, str]:
    return manifest.file, manifest.document.number, manifest.title


def check(sources: Iterable[ManifestSource], formats: Sequence[FileFormat] = ()) -> CheckResult:
    """Check manifests and files of further formats; findings are in the order of files and lines."""
    manifests: list[Manifest] = []
    findings: list[Finding] = []
    order: dict[str, int] = {}
    for source in sources:
        order[source.name] = len(order)
        read, broken = read_manifests(source)
        embedded = [file for manifest in read for file in read_embedded(manifest, formats)]
        manifests += [*read, *(file.manifest for file in embedded if file.manifest is not None)]
        findings += [*broken, *(finding for file in embedded for finding in file.findings)]
    objects: list[TrellisObject] = []
    for written in manifests:
        manifest, kind, mistyped = recognise_kind(written, formats)
        findings += mistyped
        if kind is not None:
            findings += [manifest.convert_problem(problem) for problem in _find_problems(manifest, kind)]
            findings += check_scenario_manifests(manifest, kind)
            objects.append(TrellisObject(manifest, kind, decode_manifest(manifest, kind)))
    workloads = WorkloadIndex(manifests)
    findings += find_conflicts(objects, workloads)
    findings.sort(key=lambda finding: (order[finding.file], finding.line, finding.column, finding.message))
    documents = len({(m.file, m.document.number) for m in manifests} | {(f.file, f.document) for f in findings})
    return CheckResult(tuple(findings), tuple(objects), workloads, len(order), documents)


def _find_problems(manifest: Manifest, kind: KnownKind) -> Iterable[ValidationProblem]:
    return kind.find_problems(manifest.value) if isinstance(kind, FileFormat) else validate(kind, manifest.value)


REFUSED = Reason("RefusedByServer", "The API server refuses the object in a dry run.", Severity.ERROR)
NOT_SERVED = Reason(
    "NotServed", "The cluster does not serve this kind, or does not have the namespace.", Severity.ERROR
)

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[([^\]]+)\]")


def convert_server_error(trellis_object: TrellisObject, error: KubeError) -> Iterator[Finding]:
    """One finding per field that the server objects to, or one for the object."""
    if isinstance(error, Unreachable):
        raise error  # it concerns the server, not this object
    manifest = trellis_object.manifest
    if isinstance(error, Invalid) and error.details.causes:
        for cause in error.details.causes:
            path = parse_field_path(cause.field)
            yield manifest.build_finding(REFUSED, f"the API server says: {cause.message}", path)
    elif isinstance(error, NotFound) and error.details.kind != "namespaces":
        kind = trellis_object.kind
        message = f"the cluster does not serve {kind.api_version} {kind.name}: install it with `trellis crds`"
        yield manifest.build_finding(NOT_SERVED, message, ("apiVersion",))
    elif isinstance(error, NotFound):
        yield manifest.build_finding(NOT_SERVED, f"the API server says: {error.message}", ("metadata", "namespace"))
    else:
        yield manifest.build_finding(REFUSED, f"the API server says: {error.message}")


def parse_field_path(text: str) -> Path:
    """`spec.buckets[1].cpu` as a path; `<nil>` and the like lead to the object itself."""
    if not re.match(r"[A-Za-z]", text):
        return ()
    return tuple(int(index) if index else name or key for name, index, key in _STEP.findall(text))
