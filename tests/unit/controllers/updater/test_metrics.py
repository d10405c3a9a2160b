"""What is counted is what upstream counts: its figures, labels and Events, for dashboards that were made for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from support.api_server.server import Document, pod_path
from support.controllers.updater import World
from trellis.controllers.updater.process import UpdaterController
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.testing.scripted_transport import ScriptedResponse, error_response

CONTROLLED = 'vpa_updater_controlled_pods_total{update_mode="Recreate",vpa_size_log2="1"}'
TOO_SMALL = "node didn't have enough allocatable resources: cpu"


def refuse_resize(request: Request) -> ScriptedResponse | None:
    return error_response(403, "Forbidden", TOO_SMALL) if request.path.endswith("/resize") else None


def going(pod: Document) -> None:
    pod["metadata"]["deletionTimestamp"] = "2027-01-15T00:00:00Z"


def ended(pod: Document) -> None:
    pod["status"]["phase"] = "Succeeded"


def unplaced(pod: Document) -> None:
    pod["spec"]["nodeName"] = ""


@pytest.mark.parametrize("not_live", [going, ended, unplaced])
def test_pods_that_are_not_live_are_neither_counted_nor_make_a_workload_larger(
    not_live: Callable[[Document], None],
) -> None:
    world = World()
    world.add_workload(pods=2)
    # So that nothing changes while it is looked at.
    world.budget = lambda _pod: False
    for name in ("web-2", "web-3"):
        pod = world.add_pod("web", name)
        not_live(pod)
        world.server.put(pod_path(name), pod)

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.metric_value(CONTROLLED) == world.metric_value("vpa_updater_controlled_pods_total{") == 2
        assert world.metric_value("vpa_updater_evictable_pods_total{") == 2
        failed = 'vpa_updater_failed_eviction_attempts_total{reason="EvictionError",update_mode="Recreate"'
        assert world.metric_value(f'{failed},vpa_name="web",vpa_namespace="shop",vpa_size_log2="1"}}') > 0
        assert world.metric_value(f'{failed},vpa_name="web",vpa_namespace="shop",vpa_size_log2="2"}}') == 0

    world.run(play)


def test_what_waits_is_counted_as_a_pass_found_it_and_not_as_it_left_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("--concurrent-writes=1")
    world.add_workload("a-small", mode="InPlaceOrRecreate")
    world.add_workload("large", pods=40, mode="InPlaceOrRecreate")
    answered = world.server.transport.send

    async def answer_slowly(request: Request) -> Response:
        if request.path.endswith("/resize") and "large" in request.path:
            await asyncio.sleep(1.0)
        return await answered(request)

    monkeypatch.setattr(world.server.transport, "send", answer_slowly)
    updatable = "vpa_updater_in_place_updatable_pods_total{"

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(50.0)
        # The pass took its time for the large one, and the small one was looked at again meanwhile.
        assert world.requests("a-small") == ["500m", "500m"]
        assert world.metric_value(f'{updatable}vpa_size_log2="1"}}') == 2
        await world.passes(3)
        assert world.metric_value(updatable) == 0

    world.run(play)


@pytest.mark.parametrize(
    ("mode", "reason"), [("InPlace", "InPlaceUpdateInfeasible"), ("InPlaceOrRecreate", "InPlaceUpdateError")]
)
def test_a_resize_for_which_there_is_no_headroom_is_an_error_where_the_pod_is_evicted_instead(
    mode: str, reason: str
) -> None:
    world = World()
    world.add_workload(mode=mode)
    world.fault = refuse_resize

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(1.0)
        failed = "vpa_updater_failed_in_place_update_attempts_total{"
        assert world.metric_value(f'{failed}reason="{reason}"') == world.metric_value(failed) > 0

    world.run(play)


def test_a_pod_whose_resize_is_not_retried_is_reported_once() -> None:
    world = World()
    world.add_workload(mode="InPlace")
    world.fault = refuse_resize

    async def play(_updater: UpdaterController) -> None:
        await world.passes(4)
        events = world.list_events("InPlaceResizeSkipped")
        assert sorted(about for about, _ in events) == ["Pod/web-0", "Pod/web-1"]
        assert all("current recommendation is not lower than previous" in message for _, message in events)
        assert world.metric_value("vpa_updater_in_place_infeasible_skip_pods_total{") == 2
        assert world.evictions == []
        world.recommend("web", "600m")
        await world.passes(2)
        assert len(world.list_events("InPlaceResizeSkipped")) == 2

    world.run(play)
