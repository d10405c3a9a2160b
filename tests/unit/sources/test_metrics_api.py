"""Usage from metrics.k8s.io: a response becomes columns, and invalid entries affect no others."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.blocking_calls import BlockingWatch
from trellis.base.errors import Forbidden, InvalidQuantity, ServerFault, Unreachable, UnreadableObject
from trellis.base.quantities import Quantity
from trellis.kube.client import Client
from trellis.kube.transport.responses import Response
from trellis.sources.amounts import UNREADABLE_AMOUNT, UNREADABLE_ENTRY, WITHOUT_TIME
from trellis.sources.metrics_api import MetricsApi, PodMetricsBatch, read_pod_metrics
from trellis.testing.scripted_transport import ScriptedResponse, ScriptedTransport, error_response

NOON = 1_785_585_600.0  # 2026-08-01T12:00:00Z

# As metrics-server 0.9 writes it.
REAL = b"""{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[{"metadata":{"name":
"web-6d4cf56db6-8xk2p","namespace":"shop","creationTimestamp":"2026-08-01T12:00:09Z","labels":{"app":"web"}},
"timestamp":"2026-08-01T12:00:00Z","window":"15.126s","containers":[{"name":"app","usage":{"cpu":"250000001n","memory":
"307200Ki"}},{"name":"proxy","usage":{"cpu":"0","memory":"12288Ki"}}]},{"metadata":{"name":"db-0","namespace":"data",
"creationTimestamp":"2026-08-01T12:00:09Z"},"timestamp":"2026-08-01T12:00:01.5Z","window":"20s","containers":[{"name":
"postgres","usage":{"cpu":"1500m","memory":"2Gi"}}]}]}
"""


def item(name: str = "web", *containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    result = {
        "metadata": {"name": name, "namespace": "shop"},
        "timestamp": "2026-08-01T12:00:00Z",
        "containers": list(containers) or [{"name": "app", "usage": {"cpu": "100m", "memory": "1Mi"}}],
    }
    return result | fields


def usage(name: str = "app", **amounts: Any) -> dict[str, Any]:
    return {"name": name, "usage": amounts}


def read(*items: object) -> PodMetricsBatch:
    return read_pod_metrics(msgspec.json.encode({"kind": "PodMetricsList", "items": items}))


def fetch(*responses: ScriptedResponse, namespace: str = "") -> tuple[PodMetricsBatch, ScriptedTransport]:
    transport = ScriptedTransport(*responses)

    async def main() -> PodMetricsBatch:
        return await MetricsApi(Client(transport), namespace).fetch()

    return asyncio.run(main()), transport


def test_a_response_has_one_row_for_each_container() -> None:
    batch = read_pod_metrics(REAL)
    samples = batch.samples
    assert samples.namespaces == ["shop", "shop", "data"]
    assert samples.pods == ["web-6d4cf56db6-8xk2p", "web-6d4cf56db6-8xk2p", "db-0"]
    assert samples.containers == ["app", "proxy", "postgres"]
    assert samples.times.tolist() == [NOON, NOON, NOON + 1.5]
    assert samples.cpu.tolist() == [0.251, 0.0, 1.5], "CPU is rounded up to whole millicores, as upstream's is"
    assert samples.memory.tolist() == [307200 * 1024, 12288 * 1024, 2 * 1024**3]
    assert batch.unread == {}


def test_a_response_without_items_has_no_usage() -> None:
    assert len(read_pod_metrics(b'{"kind":"PodMetricsList","items":null}').samples) == 0
    assert len(read().samples) == 0


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"kind":"Status","status":"Failure"}', b'{"items":{}}', b'{"items":[{"metadata":']
)
def test_a_response_that_is_no_list_is_refused_and_not_read_as_empty(body: bytes) -> None:
    with pytest.raises(UnreadableObject, match="PodMetricsList"):
        read_pod_metrics(body)


def test_a_missing_amount_is_unknown_and_not_zero() -> None:
    batch = read(item("a", usage(cpu="1")), item("b", usage(memory="1Ki")), item("c", {"name": "app", "usage": None}))
    assert batch.samples.cpu[0] == 1.0
    assert batch.samples.memory[1] == 1024.0
    assert [math.isnan(value) for value in batch.samples.cpu] == [False, True, True]
    assert [math.isnan(value) for value in batch.samples.memory] == [True, False, True]
    assert batch.unread == {}


@pytest.mark.parametrize("amount", ["-5m", "-1", "garbage", "", "1 core", "0x10", "NaN", "1e"])
def test_an_invalid_amount_is_unknown_and_counted(amount: str) -> None:
    batch = read(item("a", usage(cpu=amount, memory="1Ki")), item("b", usage(cpu="2", memory="1Ki")))
    assert math.isnan(batch.samples.cpu[0])
    assert batch.samples.cpu[1] == 2.0
    assert batch.samples.memory.tolist() == [1024.0, 1024.0]
    assert batch.unread == {UNREADABLE_AMOUNT.code: 1}


def test_an_absurd_amount_is_passed_on_unchanged() -> None:
    batch = read(item("a", usage(cpu="1E", memory="1e30")))
    assert batch.samples.cpu[0] > 1e15
    assert batch.samples.memory[0] > 1e18
    assert batch.unread == {}


def test_a_number_where_a_quantity_belongs_is_read() -> None:
    batch = read(item("a", usage(cpu=2, memory=1.5e6)))
    assert batch.samples.cpu.tolist() == [2.0]
    assert batch.samples.memory.tolist() == [1_500_000.0]


@pytest.mark.parametrize("time", [None, "", "yesterday", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_a_pod_without_a_time_is_skipped_and_counted(time: str | None) -> None:
    batch = read(item("a", timestamp=time), item("b"))
    assert batch.samples.pods == ["b"]
    assert batch.unread == {WITHOUT_TIME.code: 1}


@pytest.mark.parametrize(
    "wrong",
    [
        17,
        None,
        {},
        item("a", metadata={"name": "a"}),
        item("a", metadata={"namespace": "shop"}),
        item("a", timestamp=12),
        item("a", containers={"app": 1}),
        item("a", usage(name="app", cpu={"value": 1})),
        item("a", {"usage": {"cpu": "1"}}),
    ],
)
def test_an_unreadable_item_affects_no_other(wrong: object) -> None:
    batch = read(item("b"), wrong, item("c"))
    assert batch.samples.pods == ["b", "c"]
    assert batch.unread == {UNREADABLE_ENTRY.code: 1}


amounts = st.one_of(
    st.none(),
    st.from_regex(r"[0-9]{1,12}(n|u|m|k|Ki|Mi|)", fullmatch=True),
    st.text(alphabet="0123456789.-+eEKimn", max_size=6),
)


@given(st.lists(st.tuples(amounts, amounts), max_size=20))
def test_every_amount_equals_that_of_a_quantity(pairs: list[tuple[str | None, str | None]]) -> None:
    batch = read(*(item(f"p{n}", usage(cpu=cpu, memory=memory)) for n, (cpu, memory) in enumerate(pairs)))
    unreadable = 0
    for number, pair in enumerate(pairs):
        for text, column, scale in zip(pair, (batch.samples.cpu, batch.samples.memory), (1000, 1), strict=True):
            count = _count(text, scale)
            unreadable += text is not None and count is None
            expected = math.nan if count is None else count / scale
            assert column[number] == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert batch.unread.get(UNREADABLE_AMOUNT.code, 0) == unreadable


def _count(text: str | None, scale: int) -> int | None:
    """Thousandths or units, one by one; None for what is no amount."""
    try:
        quantity = Quantity.parse(text)
    except InvalidQuantity:
        return None
    count = quantity.milli if scale == 1000 else quantity.units
    return count if count >= 0 else None


def test_one_request_reads_all_namespaces() -> None:
    batch, transport = fetch(Response(200, body=REAL))
    assert len(batch.samples) == 3
    [request] = transport.requests
    assert (request.method, request.path, request.query) == ("GET", "/apis/metrics.k8s.io/v1beta1/pods", ())
    assert request.headers["Accept-Encoding"] == "identity"


def test_one_namespace_is_requested_alone() -> None:
    _, transport = fetch(Response(200, body=REAL), namespace="shop")
    assert transport.requests[0].path == "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (
            error_response(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
            ServerFault,
        ),
        (error_response(403, "Forbidden", 'pods.metrics.k8s.io is forbidden: User "x" cannot list'), Forbidden),
        (Unreachable("https://10.0.0.1 cannot be connected to"), Unreachable),
        (Response(200, body=b"<html>"), ServerFault),
    ],
)
def test_a_failure_is_an_error_of_the_api_server(response: ScriptedResponse, error: type[Exception]) -> None:
    with pytest.raises(error):
        fetch(response)


def test_a_long_answer_is_read_beside_the_event_loop() -> None:
    pod = msgspec.json.encode(item("web", usage(cpu="12345n", memory="1Mi"), usage("proxy", cpu="5m")))
    body = b'{"items":[' + b",".join([pod] * 50_000) + b"]}"

    async def main() -> BlockingWatch:
        source = MetricsApi(Client(ScriptedTransport(Response(200, body=body))))
        with BlockingWatch() as watch:
            assert len((await source.fetch()).samples) == 100_000
        return watch

    # A busy machine may let a thread wait for 50 ms without anybody's fault, but not five times in a row.
    assert any(asyncio.run(main()).blocks == [] for _ in range(5))
