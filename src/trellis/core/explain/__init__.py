"""Explanations of what the components decide about one object, from the collected state of its cluster.

The functions of the recommender, the updater, the admission controller, the Hvpa and Buffer controllers and the node
autoscaler are called with what was collected (`component_decisions`), and their answers are put in order
(`explanation`). Nothing is decided here, and no rule is written a second time: an explanation contains only what is
found among their answers. What is known to a running process alone is listed as missing evidence.
"""

from trellis.core.explain.buffer import explain_buffer
from trellis.core.explain.component_decisions.evidence import Evidence, build_evidence
from trellis.core.explain.component_decisions.node_plans import KnownNodeGroups
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.explain.explanation.document import ObjectExplanation
from trellis.core.explain.node import explain_node
from trellis.core.explain.workload import explain_hvpa, explain_pod, explain_recommendation, explain_vpa
from trellis.core.explain.workload_summary import explain_workload

__all__ = [
    "CollectedSettings",
    "Evidence",
    "KnownNodeGroups",
    "ObjectExplanation",
    "build_evidence",
    "explain_buffer",
    "explain_hvpa",
    "explain_node",
    "explain_pod",
    "explain_recommendation",
    "explain_vpa",
    "explain_workload",
]
