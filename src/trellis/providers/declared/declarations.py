"""Reads the node groups that a ConfigMap declares.

Every entry of it is a file: one document or several, YAML or JSON, each of the kind of the provider. They are validated
as `trellis check` validates them. A document that is refused costs its own group alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from typing import Any, Generic, TypeVar

import msgspec

from trellis.api.kube.coordination import ConfigMap
from trellis.api.problems import DUPLICATE, INVALID, ValidationProblem
from trellis.api.registry import Kind
from trellis.api.validation import validate
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.lint.findings import Finding
from trellis.core.lint.kinds import recognise_kind
from trellis.core.lint.manifests import Manifest, ManifestSource, read_manifests
from trellis.providers.protocol import UNKNOWN_GROUP, GroupProblem

GROUP_REFUSED = Reason("NodeGroupRefused", "The declaration of a node group is invalid.", Severity.ERROR)
NO_GROUPS = Reason("NoNodeGroups", "There is no declaration of node groups.", Severity.WARNING)
GROUP_GONE = Reason("NodeGroupGone", "There are nodes of a node group that is no longer declared.", Severity.WARNING)

D = TypeVar("D")


class Declarations(msgspec.Struct, Generic[D], frozen=True):
    """All valid groups of a ConfigMap by name, and the problems of the others."""

    groups: Mapping[str, D]
    problems: tuple[GroupProblem, ...] = ()


class DeclarationReader(Generic[D]):
    """Reads the declarations of one kind. `build` gets a valid document; `where` is the ConfigMap's, for messages.

    Documents are read when the ConfigMap has changed, and in a thread: hundreds of groups would block the event loop.
    """

    def __init__(self, kind: Kind, where: str, build: Callable[[Mapping[str, Any]], D]) -> None:
        self._kind = kind
        self._where = where
        self._build = build
        self._read: tuple[ConfigMap | None, Declarations[D]] | None = None
        self._reading = asyncio.Lock()

    async def read(self, config: ConfigMap | None) -> Declarations[D]:
        """The declarations of a ConfigMap, the last ones if it is the same."""
        async with self._reading:
            if self._read is None or self._read[0] != config:
                declared = await asyncio.to_thread(read_declarations, self._kind, config, self._where, self._build)
                self._read = config, declared
            return self._read[1]


def read_declarations(
    kind: Kind, config: ConfigMap | None, where: str, build: Callable[[Mapping[str, Any]], D]
) -> Declarations[D]:
    """The groups of a ConfigMap; `where` is its namespace and name, for messages."""
    if config is None:
        return Declarations({}, (GroupProblem("", DetailedReason(NO_GROUPS, f"the ConfigMap {where} does not exist")),))
    groups: dict[str, D] = {}
    problems: list[GroupProblem] = []
    for file, text in sorted(config.data.items()):
        manifests, unreadable = read_manifests(ManifestSource(file, text.encode(errors="surrogatepass")))
        problems += [_build_refusal("", [finding]) for finding in unreadable]
        for document in manifests:
            manifest, findings = _validate(kind, document, groups)
            errors = [finding for finding in findings if finding.is_error]
            if errors:
                problems.append(_build_refusal(manifest.name, errors))
            else:
                groups[manifest.name] = build(manifest.value)
    if not groups and not problems:
        problems.append(GroupProblem("", DetailedReason(NO_GROUPS, f"the ConfigMap {where} declares no node group")))
    return Declarations(groups, tuple(problems))


def find_undeclared_groups(
    declared: Declarations[Any], members: Mapping[str, Sized], noun: str = "node"
) -> Iterator[GroupProblem]:
    """Problems of groups that have `members` and are not declared."""
    reported = {problem.group for problem in declared.problems}
    for name, found in sorted(members.items()):
        if name not in declared.groups and name not in reported:
            text = f"the node group {name} of {pluralize(len(found), noun)} is not declared"
            yield GroupProblem(name, DetailedReason(GROUP_GONE, text))


def build_unknown_group(group: str) -> DetailedReason:
    """The refusal of a call about a group that is not declared."""
    return DetailedReason(UNKNOWN_GROUP, f"the node group {group} does not exist")


def _validate(kind: Kind, written: Manifest, others: Collection[str]) -> tuple[Manifest, list[Finding]]:
    """The document as it was read, and its problems; of two groups with one name the first counts."""
    manifest, found, findings = recognise_kind(written)
    if found is not kind:
        expected = f"must be {kind.name} of {kind.api_version}"
        return manifest, [
            *findings,
            manifest.convert_problem(ValidationProblem(("kind",), INVALID, expected, manifest.kind)),
        ]
    findings += [manifest.convert_problem(problem) for problem in validate(kind, manifest.value)]
    if manifest.name in others:
        duplicate = ValidationProblem(
            ("metadata", "name"), DUPLICATE, "the name is already used by another node group", manifest.name
        )
        findings.append(manifest.convert_problem(duplicate))
    return manifest, findings


def _build_refusal(group: str, findings: Iterable[Finding]) -> GroupProblem:
    return GroupProblem(group, DetailedReason(GROUP_REFUSED, "; ".join(map(_format_finding, findings))))


def _format_finding(finding: Finding) -> str:
    path = f" {finding.path}:" if finding.path else ""
    return f"{finding.file}:{finding.line}:{finding.column}{path} {finding.message}"
