"""Freezes: a ConfigMap stops all changes to the cluster's running pods, an annotation those of a namespace or object.

    kubectl create configmap trellis-freeze -n kube-system --from-literal=by=alice --from-literal=why='incident 17'
    kubectl annotate namespace shop trellis.x-k8s.io/freeze=alice
    kubectl annotate vpa web -n shop trellis.x-k8s.io/freeze=alice

The ConfigMap alone is enough, and so is the annotation with any value, so that an emergency requires no exact
spelling. Only `false` means that nothing is frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from trellis.base.reasons import Reason
from trellis.core.cluster.dump_format import FREEZE_CONFIG_MAP

FROZEN = Reason("Frozen", "Somebody has stopped all changes to running pods.")

CLUSTER_FREEZE_CONFIG_MAP: Final = FREEZE_CONFIG_MAP
FREEZE_ANNOTATION: Final = "trellis.x-k8s.io/freeze"
_SWITCH, _BY, _WHY = "freeze", "by", "why"
_SOMEBODY: Final = "somebody"
# What people write to say yes; anything else is a name.
_YES: Final = frozenset({"", "true", "yes", "on", "1"})


class FreezeScope(StrEnum):
    """How far a freeze reaches."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    OBJECT = "object"


class Freeze(msgspec.Struct, frozen=True):
    """Who stopped what, and why if that is told."""

    by: str
    where: FreezeScope
    why: str = ""

    def __str__(self) -> str:
        return f"the {self.where.value} is frozen by {self.by}{f': {self.why}' if self.why else ''}"


def find_freeze(
    config: Mapping[str, str] | None, namespace: Mapping[str, str], own: Mapping[str, str]
) -> Freeze | None:
    """The widest freeze that holds: the data of the ConfigMap (None: there is none), then annotations."""
    if config is not None and not _is_no(config.get(_SWITCH, "")):
        author = config.get(_BY, "").strip() or _name(config.get(_SWITCH, ""))
        return Freeze(author, FreezeScope.CLUSTER, config.get(_WHY, "").strip())
    for written, where in ((namespace, FreezeScope.NAMESPACE), (own, FreezeScope.OBJECT)):
        if FREEZE_ANNOTATION in written and not _is_no(written[FREEZE_ANNOTATION]):
            return Freeze(_name(written[FREEZE_ANNOTATION]), where)
    return None


def _is_no(text: str) -> bool:
    return text.strip().lower() == "false"


def _name(text: str) -> str:
    return _SOMEBODY if text.strip().lower() in _YES else text.strip()
