"""Metrics of the server of node providers."""

from __future__ import annotations

from typing import Final

from trellis.controllers.nodes.metrics import PROVIDER_FAILURES
from trellis.providers.external_grpc import rpcs
from trellis.providers.external_grpc.rpcs import CallStatus
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.metrics import CounterSpec, GaugeSpec, HistogramSpec, Label, Spec

_RPC: Final = Label("rpc", values=sorted(value.name for value in vars(rpcs).values() if isinstance(value, rpcs.Rpc)))

CALLS: Final = CounterSpec(
    "trellis_node_provider_calls_total",
    "Calls of clients, by their result.",
    (_RPC, Label("status", values=CallStatus)),
)
LATENCY: Final = HistogramSpec(
    "trellis_node_provider_call_duration_seconds",
    "Duration of calls.",
    (_RPC,),
    buckets=(0.005, 0.02, 0.1, 0.5, 2.0, 5.0, 15.0),
)
GROUPS: Final = GaugeSpec("trellis_node_provider_groups", "Node groups that clients are offered.")

PROVIDER_SERVER_METRICS: Final[tuple[Spec, ...]] = (*CLUSTER_METRICS, PROVIDER_FAILURES, CALLS, LATENCY, GROUPS)
