"""What scales say: asked once for many, remembered for a while, and never an error for the asker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from support import virtual_time
from trellis.api.kube.meta import OwnerReference
from trellis.base.errors import KubeError, Unreachable
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.cluster.target_problems import (
    TARGET_FORBIDDEN,
    TARGET_KIND_NOT_SERVED,
    TARGET_NOT_FOUND,
    TARGET_NOT_SCALABLE,
    TARGET_UNREACHABLE,
)
from trellis.kube.client import Client
from trellis.kube.discovery import ServedKind
from trellis.kube.scales import ScaleLookups
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.testing.scripted_transport import error_response, json_response

ROLLOUT = ServedKind("argoproj.io", "v1alpha1", "rollouts", "Rollout", True, subresources=("status", "scale"))
LAMP = ServedKind("example.com", "v1", "lamps", "Lamp", True, subresources=("status",))
POOL = ServedKind("example.com", "v1", "pools", "Pool", False, subresources=("scale",))
ROLLOUTS = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts"


class Cluster:
    """Scales by path, kinds as discovery tells them, and as much trouble as a test wants; every answer takes 1 s."""

    def __init__(self, *kinds: ServedKind) -> None:
        self.kinds = list(kinds)
        self.stale: list[str] = []
        self.scales: dict[str, dict[str, Any]] = {}
        self.trouble: Response | KubeError | None = None
        self.discovery_trouble: Response | KubeError | None = None
        self.requests: list[Request] = []
        self.in_flight = self.most_in_flight = 0

    def put(self, name: str, selector: str, **metadata: Any) -> None:
        scale = {"metadata": {"name": name, **metadata}, "spec": {"replicas": 3}, "status": {"selector": selector}}
        self.scales[f"{ROLLOUTS}/{name}/scale"] = scale

    @property
    def asked(self) -> list[str]:
        """Every scale that was asked for, by path."""
        return [request.path for request in self.requests if request.path.endswith("/scale")]

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(1)
        finally:
            self.in_flight -= 1
        answer = self._answer(request.path)
        if isinstance(answer, KubeError):
            raise answer
        return answer

    def _answer(self, path: str) -> Response | KubeError:
        if path in ("/api", "/apis"):
            return self.discovery_trouble or _discovered([] if path == "/api" else self.kinds, self.stale)
        if self.trouble is not None:
            return self.trouble
        return (
            json_response(self.scales[path])
            if path in self.scales
            else error_response(404, "NotFound", f"{path} not found")
        )

    def stream(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def _discovered(kinds: list[ServedKind], stale: list[str]) -> Response:
    groups: dict[tuple[str, str], list[Any]] = {}
    for kind in kinds:
        groups.setdefault((kind.group, kind.version), []).append(
            {
                "resource": kind.plural,
                "responseKind": {"kind": kind.kind},
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "subresources": [{"subresource": subresource} for subresource in kind.subresources],
            }
        )
    listed = [
        {"metadata": {"name": group}, "versions": [{"version": version, "resources": resources}]}
        for (group, version), resources in groups.items()
    ]
    listed += [{"metadata": {"name": name}, "versions": [{"version": "v1", "freshness": "Stale"}]} for name in stale]
    content = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    return json_response({"items": listed}, headers={"content-type": content})


def target(name: str = "web", kind: str = "Rollout", api_version: str = "argoproj.io/v1alpha1") -> TargetRef:
    return TargetRef("shop", api_version, kind, name)


Work = Callable[[ScaleLookups], Awaitable[Any]]


def run(cluster: Cluster, work: Work, draw: float = 0.0, capacity: int = 100) -> Any:
    async def main() -> Any:
        return await work(ScaleLookups(Client(cluster), draw=lambda: draw, capacity=capacity))

    return virtual_time.run(main())


def find(cluster: Cluster, given: TargetRef) -> ScaleInfo:
    scale: ScaleInfo = run(cluster, lambda lookups: lookups.find(given))
    return scale


def reason(scale: ScaleInfo) -> str:
    assert scale.problem is not None
    return scale.problem.reason.code


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(ROLLOUT, LAMP, POOL)
    cluster.put("web", "app=web")
    return cluster


@pytest.mark.req("CR-20", "CR-21")
def test_a_scale_is_read_for_its_selector_and_never_written(cluster: Cluster) -> None:
    assert find(cluster, target()) == ScaleInfo("app=web")
    assert {request.method for request in cluster.requests} == {"GET"}
    assert cluster.asked == [f"{ROLLOUTS}/web/scale"]
    assert "PartialObjectMetadata" not in cluster.requests[-1].headers["Accept"]


def test_a_server_that_names_the_owner_is_believed(cluster: Cluster) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": "1", "controller": True}
    cluster.put("web", "app=web", ownerReferences=[owner])
    assert find(cluster, target()).controller == OwnerReference("example.com/v1", "Fleet", "f", "1", True)


@pytest.mark.parametrize("api_version", ["argoproj.io/v1alpha1", "argoproj.io/v2", "", "apps/v1", "v1"])
def test_a_kind_is_found_whatever_version_is_written_as_long_as_it_is_the_only_one(
    cluster: Cluster, api_version: str
) -> None:
    assert find(cluster, target(api_version=api_version)).selector == "app=web"


def test_the_group_and_version_as_written_come_first(cluster: Cluster) -> None:
    cluster.kinds.insert(0, ServedKind("argoproj.io", "v2", "rollouts", "Rollout", True, subresources=("scale",)))
    cluster.kinds.insert(0, ServedKind("other.io", "v1", "rollouts", "Rollout", True, subresources=("scale",)))
    assert find(cluster, target()).selector == "app=web"
    assert reason(find(cluster, target(api_version="argoproj.io/v3"))) == TARGET_NOT_FOUND.code
    assert cluster.asked[-1].startswith("/apis/argoproj.io/v2/")


def test_which_of_two_kinds_is_meant_is_not_guessed(cluster: Cluster) -> None:
    cluster.kinds.append(ServedKind("other.io", "v1", "rollouts", "Rollout", True, subresources=("scale",)))
    scale = find(cluster, target(api_version=""))
    assert reason(scale) == TARGET_KIND_NOT_SERVED.code
    assert scale.problem is not None
    assert "argoproj.io and other.io" in scale.problem.message


@pytest.mark.req("CR-20")
@pytest.mark.parametrize(("kind", "what"), [("Lamp", "lamps.example.com"), ("Pool", "pools.example.com")])
def test_a_kind_without_a_scale_in_a_namespace_is_no_target(cluster: Cluster, kind: str, what: str) -> None:
    scale = find(cluster, target(kind=kind, api_version="example.com/v1"))
    assert reason(scale) == TARGET_NOT_SCALABLE.code
    assert scale.problem is not None
    assert what in scale.problem.message
    assert cluster.asked == []


def test_a_missing_kind_is_reported_with_a_suggestion(cluster: Cluster) -> None:
    scale = find(cluster, target(kind="Rolout"))
    assert reason(scale) == TARGET_KIND_NOT_SERVED.code
    assert scale.problem is not None
    assert "the kind Rolout in argoproj.io/v1alpha1 (did you mean Rollout?)" in scale.problem.message


def test_a_kind_of_an_unreachable_api_service_is_not_reported_missing(cluster: Cluster) -> None:
    cluster.stale = ["broken.io"]
    assert reason(find(cluster, target(kind="Boat", api_version="broken.io/v1"))) == TARGET_UNREACHABLE.code


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (error_response(404, "NotFound"), TARGET_NOT_FOUND),
        (error_response(403, "Forbidden", "no scale for you"), TARGET_FORBIDDEN),
        (error_response(401, "Unauthorized"), TARGET_FORBIDDEN),
        (error_response(429, "TooManyRequests", retry_after=1), TARGET_UNREACHABLE),
        (error_response(500, "InternalError"), TARGET_UNREACHABLE),
        (Unreachable("no route to host"), TARGET_UNREACHABLE),
        (json_response({"status": {"selector": 3}}), TARGET_UNREACHABLE),
        (json_response([]), TARGET_UNREACHABLE),
    ],
)
def test_every_failure_of_a_scale_lookup_is_a_result(
    cluster: Cluster, trouble: Response | KubeError, expected: Any
) -> None:
    cluster.trouble = trouble
    assert reason(find(cluster, target())) == expected.code


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [(error_response(403, "Forbidden"), TARGET_FORBIDDEN), (Unreachable("no route to host"), TARGET_UNREACHABLE)],
)
def test_a_failed_discovery_is_a_result_shared_by_all_callers(
    cluster: Cluster, trouble: Response | KubeError, expected: Any
) -> None:
    cluster.discovery_trouble = trouble
    scales = run(cluster, lambda lookups: lookups.find_all([target(f"t{n}") for n in range(30)]))
    assert {reason(scale) for scale in scales.values()} == {expected.code}
    assert len(cluster.requests) == 1


def test_concurrent_callers_share_one_request(cluster: Cluster) -> None:
    async def ask(lookups: ScaleLookups) -> list[ScaleInfo]:
        return await asyncio.gather(*(lookups.find(target()) for _ in range(20)))

    assert run(cluster, ask) == [ScaleInfo("app=web")] * 20
    assert len(cluster.asked) == 1


def test_a_cancelled_caller_does_not_cancel_the_lookup_of_others(cluster: Cluster) -> None:
    async def ask(lookups: ScaleLookups) -> ScaleInfo:
        first, second = asyncio.create_task(lookups.find(target())), asyncio.create_task(lookups.find(target()))
        await asyncio.sleep(2.5)
        first.cancel()
        return await second

    assert run(cluster, ask) == ScaleInfo("app=web")


def test_concurrent_scale_lookups_are_limited(cluster: Cluster) -> None:
    names = [f"t{n}" for n in range(100)]
    for name in names:
        cluster.put(name, f"app={name}")
    scales = run(cluster, lambda lookups: lookups.find_all([target(name) for name in names]))
    assert {given.name: answer.selector for given, answer in scales.items()} == {name: f"app={name}" for name in names}
    assert cluster.most_in_flight == 16


@pytest.mark.parametrize(("draw", "fresh"), [(0.0, 600), (0.99, 303)])
def test_an_answer_is_good_for_minutes_but_not_for_all_targets_equally_long(
    cluster: Cluster, draw: float, fresh: int
) -> None:
    async def ask(lookups: ScaleLookups) -> list[str]:
        first = await lookups.find(target())
        cluster.put("web", "app=other")
        await asyncio.sleep(fresh - 1)
        second = (await lookups.find_all([target()]))[target()]
        await asyncio.sleep(2)
        third = (await lookups.find_all([target()]))[target()]
        return [first.selector, second.selector, third.selector]

    assert run(cluster, ask, draw) == ["app=web", "app=web", "app=other"]
    assert len(cluster.asked) == 2


def test_a_target_that_was_missing_is_found_a_minute_after_it_appears(cluster: Cluster) -> None:
    async def ask(lookups: ScaleLookups) -> list[str]:
        answers = [await lookups.find(target("new"))]
        cluster.put("new", "app=new")
        for wait in (30, 31):
            await asyncio.sleep(wait)
            answers.append(await lookups.find(target("new")))
        return [scale.selector for scale in answers]

    assert run(cluster, ask) == ["", "", "app=new"]


def test_a_kind_that_was_missing_is_found_a_minute_after_it_is_installed(cluster: Cluster) -> None:
    cluster.kinds.remove(ROLLOUT)

    async def ask(lookups: ScaleLookups) -> list[str]:
        answers = [await lookups.find(target())]
        cluster.kinds.append(ROLLOUT)
        await asyncio.sleep(61)
        answers.append(await lookups.find(target()))
        return [scale.selector for scale in answers]

    assert run(cluster, ask) == ["", "app=web"]


def test_a_kind_whose_version_was_replaced_is_found_in_the_new_one_a_minute_later(cluster: Cluster) -> None:
    async def ask(lookups: ScaleLookups) -> list[str]:
        answers = [await lookups.find(target())]
        cluster.kinds[0] = msgspec.structs.replace(ROLLOUT, version="v1")
        cluster.put("other", "app=other")
        cluster.scales = {path.replace("v1alpha1", "v1"): scale for path, scale in cluster.scales.items()}
        for _ in range(2):
            await asyncio.sleep(61)
            answers.append(await lookups.find(target("other")))
        return [scale.selector for scale in answers]

    assert run(cluster, ask) == ["app=web", "", "app=other"]


def test_one_target_that_is_not_found_has_kinds_asked_for_once_more_and_not_every_minute(cluster: Cluster) -> None:
    async def ask(lookups: ScaleLookups) -> int:
        await lookups.find(target("gone"))
        for number in range(8):
            await asyncio.sleep(61)
            cluster.put(f"web-{number}", "app=web")
            await lookups.find(target(f"web-{number}"))
        return len([request for request in cluster.requests if request.path == "/apis"])

    assert run(cluster, ask) == 2


@pytest.mark.parametrize("trouble", [error_response(500, "InternalError"), Unreachable("no route to host")])
def test_during_an_outage_the_last_scale_is_used(cluster: Cluster, trouble: Response | KubeError) -> None:
    async def ask(lookups: ScaleLookups) -> list[ScaleInfo]:
        answers = [await lookups.find(target())]
        cluster.trouble = cluster.discovery_trouble = trouble
        await asyncio.sleep(700)
        answers.append(await lookups.find(target()))
        cluster.trouble = cluster.discovery_trouble = None
        cluster.put("web", "app=other")
        await asyncio.sleep(61)
        answers.append(await lookups.find(target()))
        return answers

    assert [scale.selector for scale in run(cluster, ask)] == ["app=web", "app=web", "app=other"]


@pytest.mark.parametrize("trouble", [error_response(404, "NotFound"), error_response(403, "Forbidden")])
def test_a_deleted_or_forbidden_target_has_no_scale(cluster: Cluster, trouble: Response) -> None:
    async def ask(lookups: ScaleLookups) -> ScaleInfo:
        await lookups.find(target())
        cluster.trouble = trouble
        await asyncio.sleep(700)
        return await lookups.find(target())

    assert run(cluster, ask).problem is not None


def test_the_scale_cache_is_bounded_and_evicts_unused_targets(cluster: Cluster) -> None:
    async def ask(lookups: ScaleLookups) -> None:
        for name in ("a", "b", "web", "c", "web", "d", "web", "a"):
            await lookups.find(target(name))

    run(cluster, ask, capacity=2)
    assert [path.split("/")[-2] for path in cluster.asked] == ["a", "b", "web", "c", "d", "a"]


def test_discovery_is_asked_for_once_for_many_and_again_when_it_is_old(cluster: Cluster) -> None:
    async def ask(lookups: ScaleLookups) -> None:
        await lookups.find_all([target(), target(kind="Lamp", api_version="example.com/v1")])
        await asyncio.sleep(650)
        await lookups.find(target())

    run(cluster, ask)
    assert [request.path for request in cluster.requests].count("/apis") == 2
