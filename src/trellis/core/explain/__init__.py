"""Why did it do that? What the components decide about one object, told what is known of its cluster.

The recommender's, the updater's, the admission controller's, the Hvpa and Buffer controllers' and the node autoscaler's
own functions are asked with what was collected, and what they answer is put in order. Nothing is decided here, and no
rule is written down a second time: what cannot be found among their answers is not said. What a process that runs
remembers, and nobody else can see, is named as unseen.
"""

from trellis.core.explain.asking import explain_hvpa, explain_pod, explain_recommendation, explain_vpa
from trellis.core.explain.asking_buffers import explain_buffer
from trellis.core.explain.asking_nodes import explain_node
from trellis.core.explain.evidence import Evidence, evidence_of
from trellis.core.explain.explained import Explained
from trellis.core.explain.noding import KnownGroups
from trellis.core.explain.settings import Components

__all__ = [
    "Components",
    "Evidence",
    "Explained",
    "KnownGroups",
    "evidence_of",
    "explain_buffer",
    "explain_hvpa",
    "explain_node",
    "explain_pod",
    "explain_recommendation",
    "explain_vpa",
]
