"""PodDisruptionBudgets and the priority class."""

from __future__ import annotations

from trellis.install.objects.conditions import PROCESSES
from trellis.install.objects.metadata import build_metadata, build_selector
from trellis.install.tree.nodes import Tree, Value, When, all_of


def build_budgets() -> list[Tree]:
    """A PodDisruptionBudget for each Deployment."""
    return [
        When(
            all_of(Value("podDisruptionBudgets.enabled"), process.installed),
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": build_metadata(process.name),
                "spec": {
                    "maxUnavailable": Value("podDisruptionBudgets.maxUnavailable"),
                    "selector": {"matchLabels": build_selector(process)},
                },
            },
        )
        for process in PROCESSES
    ]


def build_priority_class() -> list[Tree]:
    """The priority class of the pods, if it is to be created."""
    priority_class = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": build_metadata("", cluster=True) | {"name": Value("priorityClass.name")},
        "value": Value("priorityClass.value"),
        "description": "Pods of Trellis.",
    }
    return [When(Value("priorityClass.create"), priority_class)]
