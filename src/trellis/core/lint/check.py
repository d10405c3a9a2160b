"""One check of a set of manifests, from text to findings."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.api.validate import validate
from trellis.core.lint.findings import Finding
from trellis.core.lint.manifests import Manifest, Source, read_manifests
from trellis.core.lint.recognise import decode, recognise
from trellis.core.lint.scenarios import nested_findings
from trellis.core.lint.traps import Ours, find_traps
from trellis.core.lint.workloads import Workloads


class Checked(msgspec.Struct, frozen=True):
    """What a check found. `objects` are ours; everything else was only looked at where ours refer to it."""

    findings: tuple[Finding, ...]
    objects: tuple[Ours, ...]
    workloads: Workloads
    files: int
    documents: int

    @property
    def sound(self) -> list[Ours]:
        """The objects without an error."""
        wrong = {(finding.file, finding.document, finding.object) for finding in self.findings if finding.is_error}
        return [ours for ours in self.objects if _identity(ours.manifest) not in wrong]

    def joined(self, findings: Iterable[Finding]) -> Checked:
        """The same with what somebody else has found."""
        return msgspec.structs.replace(self, findings=(*self.findings, *findings))

    @property
    def errors(self) -> int:
        """How many findings make the check fail."""
        return sum(finding.is_error for finding in self.findings)

    @property
    def warnings(self) -> int:
        """How many findings are only told."""
        return len(self.findings) - self.errors


def _identity(manifest: Manifest) -> tuple[str, int, str]:
    return manifest.file, manifest.document.number, manifest.title


def check(sources: Iterable[Source]) -> Checked:
    """Everything that is wrong with these manifests, in the order of files and lines."""
    manifests: list[Manifest] = []
    findings: list[Finding] = []
    order: dict[str, int] = {}
    for source in sources:
        order[source.name] = len(order)
        read, broken = read_manifests(source)
        manifests += read
        findings += broken
    objects: list[Ours] = []
    for written in manifests:
        manifest, kind, mistyped = recognise(written)
        findings += mistyped
        if kind is not None:
            findings += [manifest.problem(problem) for problem in validate(kind, manifest.value)]
            findings += nested_findings(manifest, kind)
            objects.append(Ours(manifest, kind, decode(manifest, kind)))
    workloads = Workloads(manifests)
    findings += find_traps(objects, workloads)
    findings.sort(key=lambda finding: (order[finding.file], finding.line, finding.column, finding.message))
    documents = len({(m.file, m.document.number) for m in manifests} | {(f.file, f.document) for f in findings})
    return Checked(tuple(findings), tuple(objects), workloads, len(order), documents)
