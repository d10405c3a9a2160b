"""The HTTP API explains the last pass of the process."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from support import virtual_time
from support.controllers.recommender import NAMESPACE, START, World
from trellis.controllers.recommender.http_api import RecommendationApi
from trellis.core.recommend.state.tables import SHADOW_RECOMMENDERS
from trellis.runtime.leadership import Leadership
from trellis.runtime.telemetry.health_server import PageRequest


async def get(answering: RecommendationApi, *path: str, **query: str) -> tuple[int, dict[str, Any]]:
    """What is answered at /recommendations and below it."""
    names = ("namespace", "vpa")[: len(path)]
    route = "/".join(["/recommendations", *(f"{{{name}}}" for name in names)])
    response = await answering.pages[route](PageRequest(dict(zip(names, path, strict=True)), query))
    assert response.kind == "application/json"
    return response.status, json.loads(response.text)


class Elsewhere(Leadership):
    """Leads some of its names; the others are led by somebody else."""

    def __init__(self, *served: str, holders: dict[str, str]) -> None:
        super().__init__([*served, *holders])
        self._holders = holders

    @property
    def served(self) -> frozenset[str]:
        return frozenset(self.names - self._holders.keys())

    def list_other_holders(self) -> dict[str, str]:
        return self._holders


def test_the_api_reports_the_decisions_of_the_last_pass() -> None:
    world = World("--recommender-name=default,window")
    world.add_workload("web")
    vpa = world.vpa("web")
    vpa["metadata"]["annotations"] = {SHADOW_RECOMMENDERS: "window,nobody"}
    world.server.put("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web", vpa)

    async def main() -> None:
        async with world.recommending() as recommender:
            status, nothing = await get(recommender.http_api, NAMESPACE, "web")
            assert (status, nothing["error"]) == (503, "no recommender pass has finished yet; retry in a minute")
            await world.passes(1)
            status, result = await get(recommender.http_api, NAMESPACE, "web")
            assert status == 200
            [app] = result["containers"]
            assert app["published"]["target"] == world.target("web") == app["recommended"]["target"]
            assert app["recommender"] == "default"
            assert app["shadows"].keys() == {"window"}
            assert app["shadows"]["window"]["found"].keys() == {"lowerBound", "target", "upperBound"}
            assert app["shadows"]["window"]["failure"] == ""
            assert result["shadowsNotRunning"] == ["nobody"]
            assert result["conditions"] == world.vpa("web")["status"]["conditions"]
            before = result["time"]
            world.usage["web-0"] = world.usage["web-1"] = {"app": {"cpu": "2", "memory": "300Mi"}}
            await world.passes(10)
            _, result = await get(recommender.http_api, NAMESPACE, "web")
            assert result["time"] > before
            [app] = result["containers"]
            assert app["samples"] > 2
            assert app["published"]["target"] == world.target("web")

    virtual_time.run(main(), start=START)


def test_served_vpas_are_listed_in_pages() -> None:
    world = World()
    for name in ("c", "a", "d", "b"):
        world.add_vpa(name)
    world.add_vpa("theirs", recommenders=[{"name": "somebody"}])

    async def main() -> None:
        async with world.recommending() as recommender:
            await world.passes(1)
            answering = recommender.http_api
            _, everything = await get(answering)
            assert [item["name"] for item in everything["items"]] == ["a", "b", "c", "d"]
            assert (everything["count"], everything["serves"], everything["elsewhere"]) == (4, ["default"], {})
            assert "continue" not in everything
            names: list[str] = []
            page: dict[str, Any] = {"continue": ""}
            while "continue" in page:
                _, page = await get(answering, NAMESPACE, limit="3", **{"continue": page["continue"]})
                names += [item["name"] for item in page["items"]]
            assert names == ["a", "b", "c", "d"]
            _, empty = await get(answering, "nowhere")
            assert (empty["count"], empty["items"]) == (0, [])
            for limit in ("0", "501", "many", "-1", "٣", ""):
                status, refused = await get(answering, limit=limit)
                assert status == 400
                assert refused["error"].endswith("must be a whole number between 1 and 500")

    virtual_time.run(main(), start=START)


def test_a_vpa_that_is_not_served_is_distinguished_from_a_missing_one() -> None:
    world = World()
    world.add_workload("web")
    world.add_vpa("theirs", recommenders=[{"name": "somebody"}])

    async def main() -> None:
        async with world.recommending() as recommender:
            await world.passes(1)
            answering = recommender.http_api
            status, result = await get(answering, NAMESPACE, "wbe")
            assert (status, result["error"]) == (
                404,
                "there is no VerticalPodAutoscaler wbe in namespace shop, or this process does not serve its namespace",
            )
            status, result = await get(answering, NAMESPACE, "theirs")
            assert (status, result["error"]) == (
                404,
                "VerticalPodAutoscaler theirs in namespace shop names the recommender somebody; "
                "this process serves default",
            )
            world.add_vpa("new")
            await asyncio.sleep(1.0)  # of virtual time, for the watch to bring it
            status, result = await get(answering, NAMESPACE, "new")
            assert (status, result["error"]) == (
                404,
                "VerticalPodAutoscaler new in namespace shop did not exist in the last pass; retry after the next one",
            )
            await world.passes(1)
            status, _ = await get(answering, NAMESPACE, "new")
            assert status == 200
            world.server.delete("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/new")
            await world.passes(1)
            status, _ = await get(answering, NAMESPACE, "new")
            assert status == 404

    virtual_time.run(main(), start=START)


def test_a_process_that_does_not_lead_names_the_leader() -> None:
    waiting = RecommendationApi(
        Elsewhere(holders={"default": "host-2_x", "seasonal": ""}), lambda _namespace, _name: None, lambda: None
    )

    async def main() -> None:
        for path in ((), (NAMESPACE,), (NAMESPACE, "web")):
            status, result = await get(waiting, *path)
            assert status == 503
            assert result["error"] == (
                "this replica is not the leader and makes no recommendations "
                "(the leader of default is host-2_x, the leader of seasonal is unknown)"
            )
            assert (result["serves"], result["elsewhere"]) == ([], {"default": "host-2_x", "seasonal": ""})

    virtual_time.run(main(), start=START)


def test_names_with_another_leader_are_listed_with_it() -> None:
    world = World("--recommender-name=default")
    world.add_workload("web")

    async def main() -> None:
        async with world.recommending() as recommender:
            await world.passes(1)
            leadership = Elsewhere("default", holders={"seasonal": "host-2_x"})
            other = RecommendationApi(leadership, lambda *_: "seasonal", recommender.http_api.last_pass)
            status, result = await get(other, NAMESPACE, "batch")
            assert status == 404
            assert result["error"].endswith(
                "names the recommender seasonal; this process serves default (the leader of seasonal is host-2_x)"
            )

    virtual_time.run(main(), start=START)


def test_status_writes_are_logged_with_their_reason_below_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO - 5, "trellis.recommender")
    world = World()
    world.add_workload("web")

    async def play() -> None:
        await world.passes(2)

    world.run(play)
    entries = [getattr(record, "trellis_fields", {}) for record in caplog.records if record.message == "wrote a status"]
    assert {(item["namespace"], item["vpa"]) for item in entries} == {(NAMESPACE, "web")}
    assert "RecommendedValuesChanged" in entries[0]["why"]
    assert entries[1]["why"] == "BoundsMoved"
