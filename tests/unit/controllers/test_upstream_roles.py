"""Under upstream's roles all three components work, without what those roles do not let them read."""

from __future__ import annotations

import asyncio

import pytest

from support.controllers import admission, recommender, updater
from support.controllers.updater import FREEZE, NAMESPACE
from trellis.controllers.updater.process import UpdaterController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

# What upstream's updater never reads, as the last part of a path.
OURS = ("hvpas", "horizontalpodautoscalers", "namespaces", "configmaps")
HVPA_GROUP = {"groupVersion": "autoscaling.x-k8s.io/v1alpha1", "version": "v1alpha1"}
HVPAS_SERVED = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": [{"name": name, "kind": "Pod", "namespaced": True} for name in ("pods", "pods/resize")]},
    "/apis": {"groups": [{"versions": [HVPA_GROUP], "preferredVersion": HVPA_GROUP}]},
    "/apis/autoscaling.x-k8s.io/v1alpha1": {"resources": [{"name": "hvpas", "kind": "Hvpa", "namespaced": True}]},
}


def refused(request: Request, *plurals: str) -> ScriptedResponse | None:
    kind = request.path.rpartition("/")[2]
    return error_response(403, "Forbidden", f"cannot list {kind}") if kind in plurals else None


def test_the_updater_evicts_without_what_upstreams_never_reads() -> None:
    world = updater.World()
    world.fault = lambda request: refused(request, *OURS)
    world.add_workload()

    async def play(updater: UpdaterController) -> None:
        await world.passes(3)
        assert world.informers.find_readiness_problem() is None
        assert world.requests() == ["500m", "500m"]
        assert world.metric_value("trellis_unseen_resources") == len(OURS)
        assert len(world.informers.remarks()) == len(OURS)

    world.run(play)


@pytest.mark.parametrize("plural", ["configmaps", "namespaces"])
def test_a_freeze_holds_from_when_it_may_be_read(plural: str) -> None:
    world = updater.World()
    forbidden = [*OURS]
    world.fault = lambda request: refused(request, *forbidden)
    if plural == "configmaps":
        world.server.put(FREEZE, {"data": {"by": "alice"}})
    else:
        place = {"name": NAMESPACE, "annotations": {"trellis.x-k8s.io/freeze": "alice"}}
        world.server.put(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": place})

    async def play(_updater: UpdaterController) -> None:
        world.add_workload("early")
        await world.passes(3)
        assert world.requests("early") == ["500m", "500m"]
        forbidden.remove(plural)
        await world.passes(1)
        evicted = len(world.evictions)
        world.add_workload("late")
        await world.passes(5)
        assert world.requests("late") == ["100m", "100m"]
        assert len(world.evictions) == evicted

    world.run(play)


def test_a_right_that_is_revoked_while_it_works_does_not_stop_the_updater() -> None:
    world = updater.World()
    forbidden: list[str] = []
    world.fault = lambda request: refused(request, *forbidden)

    async def play(_updater: UpdaterController) -> None:
        await world.passes(1)
        forbidden.extend(OURS)
        world.server.break_watches()
        await asyncio.sleep(30.0)
        world.add_workload()
        await world.passes(3)
        assert world.requests() == ["500m", "500m"]

    world.run(play)


@pytest.mark.parametrize("plural", ["pods", "nodes", "limitranges", "replicasets"])
def test_the_updater_waits_for_what_upstreams_reads(plural: str) -> None:
    world = updater.World()
    world.fault = lambda request: refused(request, plural)
    world.add_workload()

    async def play(updater: UpdaterController) -> None:
        await world.passes(5)
        assert plural in (world.informers.find_readiness_problem() or "")
        assert world.requests() == ["100m", "100m"]

    world.run(play)


def test_the_recommender_recommends_without_hvpas() -> None:
    world = recommender.World()

    def fault(request: Request) -> ScriptedResponse | None:
        served = HVPAS_SERVED.get(request.path)
        return json_response(served) if served else refused(request, "hvpas")

    world.fault = fault
    world.add_workload("web")

    async def play() -> None:
        await world.passes(3)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        assert world.metric_value('trellis_unseen_resources{resource="hvpas.autoscaling.x-k8s.io"}') == 1

    world.run(play)


def test_the_webhook_sizes_pods_without_hvpas_and_with_them_once_it_may() -> None:
    world = admission.World()
    forbidden = ["hvpas"]
    world.fault = lambda request: refused(request, *forbidden)
    world.add_app("web")
    world.add_deployment("big")
    world.add_hvpa("big", {"app": {"cpu": "3", "memory": "1Gi"}})

    async def play() -> None:
        assert world.admission.find_readiness_problem() is None
        assert world.informers.remarks() == ["hvpas.autoscaling.x-k8s.io not watched: pods are not sized by Hvpas"]
        sized = admission.get_requests(await world.admit(admission.pod("web")))
        untouched = admission.get_requests(await world.admit(admission.pod("big")))
        assert sized != untouched
        forbidden.clear()
        await asyncio.sleep(61.0)
        assert world.informers.remarks() == []
        assert admission.get_requests(await world.admit(admission.pod("big"))) != untouched

    world.run(play)
