"""CustomResourceDefinitions, which are kept when the installation is removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trellis.api.schema.crds import build_crds
from trellis.install.objects.conditions import ADVISES
from trellis.install.objects.metadata import build_labels
from trellis.install.tree.nodes import Not, Tree, Value, When, all_of

# Helm leaves an object with this annotation in place when its release is removed, or no longer contains it.
_KEEP: Final = {"helm.sh/resource-policy": "keep"}


def list_definitions() -> Iterator[tuple[str, list[Tree]]]:
    """Each CRD under the plural of its kind."""
    for crd in build_crds():
        metadata = crd["metadata"]
        annotations = metadata.get("annotations", {}) | _KEEP
        tree = crd | {"metadata": metadata | {"labels": build_labels({}), "annotations": annotations}}
        # A report needs no kind of ours.
        yield crd["spec"]["names"]["plural"], [When(all_of(Value("crds.install"), Not(ADVISES)), tree)]
