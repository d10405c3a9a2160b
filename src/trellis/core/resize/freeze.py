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

FROZEN = Reason("Frozen", "All changes to running pods are frozen.")

CLUSTER_FREEZE_CONFIG_MAP: Final = FREEZE_CONFIG_MAP
FREEZE_ANNOTATION: Final = "trellis.x-k8s.io/freeze"
_FREEZE_KEY, _AUTHOR_KEY, _REASON_KEY = "freeze", "by", "why"
_UNKNOWN_AUTHOR: Final = "an unknown author"
# Values that mean yes; any other value is the name of the author.
_YES_VALUES: Final = frozenset({"", "true", "yes", "on", "1"})


class FreezeScope(StrEnum):
    """How far a freeze reaches."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    OBJECT = "object"


class Freeze(msgspec.Struct, frozen=True):
    """A freeze: its author, its scope and, if given, its reason."""

    author: str
    scope: FreezeScope
    reason: str = ""

    def __str__(self) -> str:
        return f"the {self.scope.value} is frozen by {self.author}{f': {self.reason}' if self.reason else ''}"


def find_freeze(
    config: Mapping[str, str] | None, namespace_annotations: Mapping[str, str], object_annotations: Mapping[str, str]
) -> Freeze | None:
    """The widest freeze that holds: the data of the ConfigMap (None: there is none), then annotations."""
    if config is not None and not _is_no(config.get(_FREEZE_KEY, "")):
        author = config.get(_AUTHOR_KEY, "").strip() or _author_name(config.get(_FREEZE_KEY, ""))
        return Freeze(author, FreezeScope.CLUSTER, config.get(_REASON_KEY, "").strip())
    for annotated, scope in (
        (namespace_annotations, FreezeScope.NAMESPACE),
        (object_annotations, FreezeScope.OBJECT),
    ):
        if FREEZE_ANNOTATION in annotated and not _is_no(annotated[FREEZE_ANNOTATION]):
            return Freeze(_author_name(annotated[FREEZE_ANNOTATION]), scope)
    return None


def _is_no(text: str) -> bool:
    return text.strip().lower() == "false"


def _author_name(text: str) -> str:
    return _UNKNOWN_AUTHOR if text.strip().lower() in _YES_VALUES else text.strip()
