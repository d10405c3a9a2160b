"""A ConfigMap: text under names, as far as a switch is read from it."""

from __future__ import annotations

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import NOTHING, Labels


class ConfigMap(KubeObject, frozen=True):
    """A ConfigMap; binary data is nobody's business here."""

    data: Labels = NOTHING
