"""The HTTP API beside the metrics, which explains recommendations from the last pass.

GET /recommendations                   the VPAs that are served, 500 at a time
GET /recommendations/NAMESPACE         the same, of one namespace
GET /recommendations/NAMESPACE/VPA     one of them, with everything that was decided about it
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from trellis.base.errors import format_value
from trellis.base.times import format_time
from trellis.core.recommend.explanations import LastPass, describe_vpa, summarize_vpa
from trellis.runtime.leadership import Leadership
from trellis.runtime.telemetry.health import ProbeResponse
from trellis.runtime.telemetry.health_server import Page, PageRequest

MOST_PER_PAGE: Final = 500
PATHS: Final = ("/recommendations", "/recommendations/{namespace}", "/recommendations/{namespace}/{vpa}")
_JSON: Final = "application/json"
_OTHER_REPLICA: Final = "another replica serves namespace {}, or has not let go of it yet"


class RecommendationApi:
    """Answers requests about the last pass, which is None before the first has ended.

    `find_recommender` returns the recommender that a VPA names, None if there is no such VPA.
    """

    def __init__(
        self,
        leadership: Leadership,
        find_recommender: Callable[[str, str], str | None],
        last_pass: Callable[[], LastPass | None],
    ) -> None:
        self._leadership = leadership
        self._find_recommender = find_recommender
        self.last_pass = last_pass

    @property
    def pages(self) -> Mapping[str, Page]:
        """The handlers by path."""
        return dict(zip(PATHS, (self._list, self._list, self._get), strict=True))

    async def _get(self, request: PageRequest) -> ProbeResponse:
        last = self.last_pass()
        if last is None:
            return self._build_error(503, self._explain_no_pass())
        namespace, name = request.path["namespace"], request.path["vpa"]
        if not self._leadership.covers(namespace):
            return self._build_error(404, _OTHER_REPLICA.format(namespace))
        # The search among fifty thousand VPAs takes milliseconds: in a thread it delays neither probes nor leases.
        document = await asyncio.get_running_loop().run_in_executor(None, _find_vpa, last, namespace, name)
        return (
            self._build_error(404, self._explain_missing(namespace, name))
            if document is None
            else _build_response(200, document)
        )

    async def _list(self, request: PageRequest) -> ProbeResponse:
        last = self.last_pass()
        if last is None:
            return self._build_error(503, self._explain_no_pass())
        text = request.query.get("limit", str(MOST_PER_PAGE))
        if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST_PER_PAGE:
            return self._build_error(
                400, f"limit: {format_value(text)}: must be a whole number between 1 and {MOST_PER_PAGE}"
            )
        page = request.path.get("namespace", ""), request.query.get("continue", ""), int(text)
        document = await asyncio.get_running_loop().run_in_executor(None, _list_vpas, last, *page)
        return _build_response(200, self._build_leadership_document() | document)

    def _build_leadership_document(self) -> dict[str, Any]:
        """The recommenders that this process serves, and the leaders of those that it does not."""
        return {"serves": sorted(self._leadership.served), "elsewhere": self._leadership.list_other_holders()}

    def _explain_no_pass(self) -> str:
        if self._leadership.served:
            return "no recommender pass has finished yet; retry in a minute"
        return f"this replica is not the leader and makes no recommendations{self._describe_leaders()}"

    def _explain_missing(self, namespace: str, name: str) -> str:
        recommender = self._find_recommender(namespace, name)
        vpa = f"VerticalPodAutoscaler {name} in namespace {namespace}"
        if recommender is None:
            return f"there is no {vpa}, or this process does not serve its namespace"
        if recommender in self._leadership.served:
            return f"{vpa} did not exist in the last pass; retry after the next one"
        served = ", ".join(sorted(self._leadership.served)) or "none"
        return f"{vpa} names the recommender {recommender}; this process serves {served}{self._describe_leaders()}"

    def _describe_leaders(self) -> str:
        leaders = [
            f"the leader of {name} is {holder or 'unknown'}"
            for name, holder in self._leadership.list_other_holders().items()
        ]
        return f" ({', '.join(leaders)})" if leaders else ""

    def _build_error(self, status: int, message: str) -> ProbeResponse:
        return _build_response(status, {"error": message} | self._build_leadership_document())


def _find_vpa(last: LastPass, namespace: str, name: str) -> dict[str, Any] | None:
    number = last.find(namespace, name)
    return None if number < 0 else describe_vpa(last, number)


def _list_vpas(last: LastPass, namespace: str, after: str, limit: int) -> dict[str, Any]:
    keys = last.list_vpas(namespace)
    begin = tuple(after.split("/", 1))
    remaining = [number for key, number in keys if key > begin] if after else [number for _, number in keys]
    document: dict[str, Any] = {
        "time": format_time(datetime.fromtimestamp(last.time, UTC)),
        "count": len(keys),
        "items": [summarize_vpa(last, number) for number in remaining[:limit]],
    }
    if len(remaining) > limit:
        vpa = last.entries[remaining[limit - 1]].vpa
        document["continue"] = f"{vpa.namespace}/{vpa.name}"
    return document


def _build_response(status: int, document: Mapping[str, Any]) -> ProbeResponse:
    """A response with indented JSON, for people who read it in a terminal."""
    return ProbeResponse(status, msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n", _JSON)
