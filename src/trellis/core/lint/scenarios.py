"""What is wrong with the manifests inside a scenario? The same as in a file of their own, at their own lines."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.api.kinds import SCENARIO, Kind
from trellis.api.problems import Path
from trellis.api.validate import validate, validate_simulated_hpa
from trellis.core.lint.findings import NOT_AN_OBJECT, Finding
from trellis.core.lint.manifests import Manifest
from trellis.core.lint.recognise import recognise


def nested_findings(manifest: Manifest, kind: Kind) -> Iterator[Finding]:
    """Findings about the objects below `spec.policies` of a scenario; nothing for other kinds.

    Two policies may have the same object: they are two ways to do one thing, and never meet.
    """
    if kind is not SCENARIO:
        return
    for nested in nested_manifests(manifest):
        if not nested.api_version or not nested.kind:
            yield nested.finding(NOT_AN_OBJECT, "not a Kubernetes object: apiVersion and kind must be given")
            continue
        meant, ours, mistyped = recognise(nested)
        yield from mistyped
        if ours is not None:
            yield from (meant.problem(problem) for problem in validate(ours, meant.value))
        elif nested.kind == "HorizontalPodAutoscaler":
            yield from (nested.problem(problem) for problem in validate_simulated_hpa(nested.value))


def nested_manifests(manifest: Manifest) -> Iterator[Manifest]:
    """The objects themselves, as far as the scenario is written well enough to hold some."""
    spec = manifest.value.get("spec")
    policies = spec.get("policies") if isinstance(spec, dict) else None
    for number, policy in enumerate(policies if isinstance(policies, list) else ()):
        objects = policy.get("objects") if isinstance(policy, dict) else None
        for index, value in enumerate(objects if isinstance(objects, list) else ()):
            if isinstance(value, dict):
                place: Path = (*manifest.place, "spec", "policies", number, "objects", index)
                yield Manifest(manifest.file, manifest.document, value, place)
