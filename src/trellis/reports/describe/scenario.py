"""Describes a Scenario in sentences."""

from __future__ import annotations

from trellis.api.scenario.spec import ScenarioSpec
from trellis.base.wording import pluralize
from trellis.reports.text.phrases import join_words


def describe_scenario(spec: ScenarioSpec) -> list[str]:
    """What is simulated, for how long, what is compared and what goes wrong."""
    written = [pluralize(len(spec.workloads), "workload")] if spec.workloads else []
    drawn = [f"{pluralize(spec.fleet.count or 0, 'workload')} drawn from a mix"] if spec.fleet is not None else []
    sentences = [
        f"Simulates {spec.duration} of {join_words(written + drawn)}, with a usage sample every {spec.step or '1m'}."
    ]
    names = [variant.name for variant in spec.variants or ()] or [
        "fixed",
        *(policy.name for policy in spec.policies or ()),
    ]
    sentences.append(f"Compares {join_words(names)}." if len(names) > 1 else f"Simulates only {names[0]}.")
    if spec.warm_up is not None:
        sentences.append(f"The first {spec.warm_up} are warm-up and not scored.")
    if spec.faults:
        sentences.append(f"Faults: {join_words([f'{fault.kind} after {fault.begin}' for fault in spec.faults])}.")
    return sentences
