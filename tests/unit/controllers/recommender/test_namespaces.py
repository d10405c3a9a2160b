"""A recommender of several namespaces reads usage and checkpoints in each by itself, and asks about no other."""

from __future__ import annotations

from collections.abc import Collection

from support.controllers.recommender import NAMESPACE, World
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response

CLIENT = 'client_name="default-metrics-client"'
POD_METRICS = "/apis/metrics.k8s.io/v1beta1"
SCOPE = f"--vpa-object-namespace={NAMESPACE},bank"
VPA = {"spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}


def paths(world: World, plural: str) -> set[str]:
    return {request.path for request in world.server.requests if request.path.endswith(f"/{plural}")}


def put_vpa(world: World, namespace: str) -> None:
    path = f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers/web"
    world.server.put(path, VPA)


def forbid(world: World, forbidden: Collection[str]) -> None:
    def fault(request: Request) -> ScriptedResponse | None:
        return error_response(403, "Forbidden", "cannot list") if request.path in forbidden else None

    world.fault = fault


def test_usage_is_requested_in_each_namespace_and_never_in_all() -> None:
    world = World(SCOPE)
    world.add_workload("web")

    async def play() -> None:
        await world.passes(3)
        assert world.target("web")
        metrics = {path for path in paths(world, "pods") if path.startswith(POD_METRICS)}
        assert metrics == {f"{POD_METRICS}/namespaces/{namespace}/pods" for namespace in (NAMESPACE, "bank")}

    world.run(play)


def test_a_namespace_whose_usage_may_not_be_read_takes_none_from_the_others() -> None:
    world = World(SCOPE)
    world.add_workload("web")
    forbid(world, [f"{POD_METRICS}/namespaces/bank/pods"])

    async def play() -> None:
        await world.passes(3)
        assert world.target("web")
        assert world.metric_value(f'vpa_recommender_metric_server_responses{{{CLIENT},is_error="true"}}') >= 2

    world.run(play)


def test_checkpoints_are_read_and_cleaned_up_in_each_namespace_and_never_in_all() -> None:
    world = World(SCOPE, "--checkpoints-gc-interval=1m")
    world.add_workload("web")
    put_vpa(world, "bank")
    forbidden = "/apis/autoscaling.k8s.io/v1/namespaces/bank/verticalpodautoscalercheckpoints"

    async def play() -> None:
        await world.passes(3)
        assert paths(world, "verticalpodautoscalercheckpoints") == {
            f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalercheckpoints"
            for namespace in (NAMESPACE, "bank")
        }
        stored = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints/web-app"
        assert stored in world.server.objects
        # A namespace that fails keeps no other from being cleaned up.
        forbid(world, [forbidden])
        world.server.delete("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web")
        await world.passes(3)
        assert stored not in world.server.objects

    world.run(play)
