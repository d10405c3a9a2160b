"""Which pods has a workload made, going by their names alone?

For history: of a pod that is long gone often nothing is known but its name. Controllers of Kubernetes name pods after
themselves, with endings of a known form. Another workload whose name begins alike can be mistaken for one only if the
rest of its name looks like such an ending.
"""

from __future__ import annotations

import re
from typing import Final

from trellis.core.model.owners import TargetRef

# Kubernetes draws endings from letters and digits that spell no words: five for a pod, up to ten for a template.
_DRAWN: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_ENDINGS: Final = {
    "Deployment": f"-{_DRAWN}{{1,10}}-{_DRAWN}{{5}}",
    "ReplicaSet": f"-{_DRAWN}{{5}}",
    "ReplicationController": f"-{_DRAWN}{{5}}",
    "DaemonSet": f"-{_DRAWN}{{5}}",
    "Job": f"(-[0-9]+)?-{_DRAWN}{{5}}",
    "CronJob": f"-[0-9]+(-[0-9]+)?-{_DRAWN}{{5}}",
    "StatefulSet": "-[0-9]+",
}


def names_of_pods(target: TargetRef) -> re.Pattern[str] | None:
    """What the names of a target's pods look like; None for kinds of which nobody knows."""
    ending = _ENDINGS.get(target.kind)
    return re.compile(re.escape(target.name) + ending) if ending and target.name else None
