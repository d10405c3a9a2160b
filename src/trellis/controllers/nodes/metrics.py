"""Which metrics does the node autoscaler have? Reasons are labels, as in Events and conditions."""

from __future__ import annotations

from typing import Final

from trellis.runtime.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.metrics import CounterSpec, GaugeSpec, Spec
from trellis.runtime.steps import execution_latency

BUFFER: Final = ("namespace", "name")

# Steps of a pass.
PROVIDER: Final = "provider"
PLAN: Final = "plan"
CARRY_OUT: Final = "carry-out"

LATENCY: Final = execution_latency("trellis_nodes")
NODES: Final = GaugeSpec("trellis_nodes_nodes", "Nodes by what becomes of them, and why.", ("outcome", "reason"))
INSTANCES: Final = GaugeSpec("trellis_nodes_instances", "Instances of each group by their state.", ("group", "state"))
GROUP_PROBLEMS: Final = GaugeSpec(
    "trellis_nodes_group_problems", "What is wrong with groups that cannot be read, by reason.", ("reason",)
)
PENDING: Final = GaugeSpec(
    "trellis_nodes_pending_pods", "Pods that wait for a node, by what is said of them.", ("reason",)
)
UNREADABLE: Final = GaugeSpec(
    "trellis_nodes_unreadable_objects", "Objects of which it cannot be read what they ask for.", ("kind",)
)
ORDERED: Final = CounterSpec("trellis_nodes_ordered_total", "Nodes that were ordered.", ("group", "reason"))
ORDERS_FAILED: Final = CounterSpec(
    "trellis_nodes_failed_orders_total",
    "Orders that came to nothing: refused, not answered, or confirmed and never seen.",
    ("group",),
)
RELEASED: Final = CounterSpec("trellis_nodes_released_total", "Nodes that were given back.", ("group", "reason"))
EVICTED: Final = CounterSpec("trellis_nodes_evictions_total", "Pods that were evicted so that nodes can go.")
PROVIDER_FAILURES: Final = CounterSpec(
    "trellis_nodes_provider_failures_total",
    "Questions to the provider that it did not answer in time, or with an error of its own.",
    ("call", "reason"),
)
BUFFERS: Final = GaugeSpec("trellis_nodes_buffers", "Buffers by what is said of their room.", ("reason",))
CHUNKS: Final = GaugeSpec("trellis_nodes_buffer_chunks", "Chunks that a Buffer stands for.", BUFFER)
PROVISIONED: Final = GaugeSpec(
    "trellis_nodes_buffer_provisioned_chunks", "Chunks of a Buffer that have room on nodes that are ready.", BUFFER
)
PRICE: Final = GaugeSpec(
    "trellis_nodes_buffer_price_per_hour",
    "Money for an hour of the room that the chunks of a Buffer have or will have.",
    BUFFER,
)
HITS: Final = CounterSpec("trellis_nodes_buffer_hits_total", "Pods that came to where a chunk of a Buffer was.", BUFFER)
MISSES: Final = CounterSpec(
    "trellis_nodes_buffer_misses_total", "Pods that wait although a chunk like them was meant to be there.", BUFFER
)

NODE_METRICS: Final[tuple[Spec, ...]] = (
    LATENCY,
    NODES,
    INSTANCES,
    GROUP_PROBLEMS,
    PENDING,
    UNREADABLE,
    ORDERED,
    ORDERS_FAILED,
    RELEASED,
    EVICTED,
    PROVIDER_FAILURES,
    BUFFERS,
    CHUNKS,
    PROVISIONED,
    PRICE,
    HITS,
    MISSES,
    *CLUSTER_METRICS,
)
