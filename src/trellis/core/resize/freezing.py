"""Has somebody stopped all actuation, and who? A ConfigMap does it for the cluster, an annotation for less.

    kubectl create configmap trellis-freeze -n kube-system --from-literal=by=alice --from-literal=why='incident 17'
    kubectl annotate namespace shop trellis.x-k8s.io/freeze=alice
    kubectl annotate vpa web -n shop trellis.x-k8s.io/freeze=alice

The ConfigMap alone is enough, and so is the annotation whatever it says: in an emergency nobody looks up a spelling.
Only `false` means that nothing is frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from trellis.base.reason import Reason
from trellis.core.model.dump_lines import FREEZE_SWITCH

FROZEN = Reason("Frozen", "Somebody has stopped all changes to running pods.")

CONFIG_MAP: Final = FREEZE_SWITCH
ANNOTATION: Final = "trellis.x-k8s.io/freeze"
_SWITCH, _BY, _WHY = "freeze", "by", "why"
_SOMEBODY: Final = "somebody"
# What people write to say yes; anything else is a name.
_YES: Final = frozenset({"", "true", "yes", "on", "1"})


class Reach(StrEnum):
    """How far a freeze reaches."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    OBJECT = "object"


class Freeze(msgspec.Struct, frozen=True):
    """Who stopped what, and why if that is told."""

    by: str
    where: Reach
    why: str = ""

    def __str__(self) -> str:
        return f"the {self.where.value} is frozen by {self.by}{f': {self.why}' if self.why else ''}"


def freeze_of(config: Mapping[str, str] | None, namespace: Mapping[str, str], own: Mapping[str, str]) -> Freeze | None:
    """The widest freeze that holds: the data of the ConfigMap (None: there is none), then annotations."""
    if config is not None and not _is_no(config.get(_SWITCH, "")):
        who = config.get(_BY, "").strip() or _name(config.get(_SWITCH, ""))
        return Freeze(who, Reach.CLUSTER, config.get(_WHY, "").strip())
    for written, where in ((namespace, Reach.NAMESPACE), (own, Reach.OBJECT)):
        if ANNOTATION in written and not _is_no(written[ANNOTATION]):
            return Freeze(_name(written[ANNOTATION]), where)
    return None


def _is_no(text: str) -> bool:
    return text.strip().lower() == "false"


def _name(text: str) -> str:
    return _SOMEBODY if text.strip().lower() in _YES else text.strip()
