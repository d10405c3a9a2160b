"""Hvpas as a simulation stores them, and the HPAs and VPAs that they own."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.manifests import STORY_1
from support.worlds.simulated_workloads import by_utilization, hvpa, vpa
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kube.scaling import Scale
from trellis.base.errors import InvalidInput
from trellis.core.cluster.write_results import WriteResult
from trellis.core.hvpa import HvpaSettings
from trellis.sim.cluster.api_server import ScaleRegistry
from trellis.sim.components.hvpa import SimulatedHvpas
from trellis.sim.components.objects import VariantObjects, add_owned_autoscalers, read_objects
from trellis.sim.kernel import Kernel

BEGIN = 1_800_000_000.0


def stored(*documents: Any) -> VariantObjects:
    return add_owned_autoscalers(read_objects(documents, BEGIN), BEGIN)


class NoScales:
    """A cluster without workloads."""

    def scale(self, *_: str) -> Scale | None:
        return None

    def set_scale(self, namespace: str, kind: str, name: str, replicas: int, /, *, version: str = "") -> WriteResult:
        del namespace, kind, name, replicas, version
        return WriteResult.GONE


def hvpas(hvpa: Hvpa) -> SimulatedHvpas:
    return SimulatedHvpas(
        Kernel(BEGIN),
        [hvpa],
        scales=ScaleRegistry(NoScales()),
        pods=lambda _: (),
        publish=lambda _: None,
        settings=HvpaSettings(),
    )


def test_sources_are_made_from_the_templates_and_belong_to_the_hvpa() -> None:
    objects = stored(hvpa(STORY_1, hpa=by_utilization(80), vpa={}))
    (owner,), (made,), (counts,) = objects.hvpas, objects.vpas, objects.hpas
    assert made.spec.update_policy is not None
    assert (made.spec.target_ref.name, made.spec.update_policy.update_mode) == ("web", "Off")
    about = counts.spec.scale_target_ref
    assert (about.kind, about.name, counts.spec.max_replicas) == ("Hvpa", "web", 16)
    for hpa_ in (made, counts):
        assert hpa_.metadata.controller is not None
        assert hpa_.metadata.controller.uid == owner.metadata.uid


def test_a_source_that_is_not_deployed_is_not_made() -> None:
    objects = stored(hvpa(STORY_1, hpa={**by_utilization(80), "deploy": False}))
    assert (objects.vpas, objects.hpas) == ((), ())


def test_an_object_of_the_user_keeps_its_name() -> None:
    objects = stored(hvpa(STORY_1, vpa={}), vpa("Off"))
    (only,) = objects.vpas
    assert only.metadata.controller is None
    own = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}, "maxReplicas": 3}
    document = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "shop"}, "spec": own}
    (counts,) = stored(hvpa(STORY_1, hpa=by_utilization(80)), document).hpas
    assert (counts.metadata.controller, counts.spec.max_replicas) == (None, 3)


def test_an_hvpa_has_no_scale_before_its_first_reconcile_and_takes_wishes_of_its_version_alone() -> None:
    (hvpa_,) = stored(hvpa(STORY_1)).hvpas
    known = hvpas(hvpa_)
    assert known.scale("shop", "Hvpa", "web") is None
    assert known.scale("shop", "Hvpa", "other") is None
    assert known.set_scale("shop", "Hvpa", "other", 3) is WriteResult.GONE
    assert known.set_scale("shop", "Hvpa", "web", 3, version="1") is WriteResult.APPLIED
    assert known.set_scale("shop", "Hvpa", "web", 4, version="1") is WriteResult.CONFLICT


def test_an_hvpa_that_breaks_a_rule_is_refused_by_name() -> None:
    (hvpa_,) = stored(hvpa()).hvpas
    with pytest.raises(InvalidInput, match=r"shop/web.*bucket"):
        hvpas(hvpa_)
