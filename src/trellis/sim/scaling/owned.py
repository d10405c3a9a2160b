"""Which HPAs and VPAs do Hvpas own? Those made from their templates, as the live controller would have made them.

Where a user's object has the name, that one stays and none is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kinds import HVPA, VPA
from trellis.api.resolve import resolve_hvpa
from trellis.core.hvpa.sources import hpa_spec, vpa_spec
from trellis.core.model.keys import key_of
from trellis.sim.policies import Policies, read_policies


def with_owned(policies: Policies, begin: float) -> Policies:
    """The objects of a variant, and those that its Hvpas make at the beginning."""
    made = read_policies(_documents(policies.hvpas), begin)
    vpas, hpas = (set(map(key_of, found)) for found in (policies.vpas, policies.hpas))
    return msgspec.structs.replace(
        policies,
        vpas=(*policies.vpas, *(each for each in made.vpas if key_of(each) not in vpas)),
        hpas=(*policies.hpas, *(each for each in made.hpas if key_of(each) not in hpas)),
    )


def _documents(hvpas: Iterable[Hvpa]) -> list[dict[str, Any]]:
    found = []
    for hvpa in hvpas:
        meaning = resolve_hvpa(hvpa)
        if meaning.deploys_vpa:
            found.append(_document(hvpa, VPA.api_version, VPA.name, vpa_spec(hvpa, meaning)))
        if meaning.deploys_hpa:
            found.append(_document(hvpa, "autoscaling/v2", "HorizontalPodAutoscaler", hpa_spec(hvpa, meaning)))
    return found


def _document(hvpa: Hvpa, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = hvpa.metadata
    owner = {"apiVersion": HVPA.api_version, "kind": HVPA.name, "name": metadata.name, "uid": metadata.uid}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": spec,
    }
