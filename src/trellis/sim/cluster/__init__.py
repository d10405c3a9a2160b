"""A model of a cluster on virtual time: small enough to read, true where autoscalers look.

kernel = Kernel(fleet.clock.begin)
cluster = ModelCluster(fleet, kernel, admit, np.random.default_rng(fleet.seed), watcher)
cluster.begin()
for number in range(fleet.clock.steps):
    kernel.run_until(fleet.clock.begin + number * fleet.clock.step)
    usage = cluster.step(number)
"""

from trellis.sim.cluster.api_server import apply_patch
from trellis.sim.cluster.cluster import ModelCluster
from trellis.sim.cluster.container_table import ContainerStage, ModelContainerTable
from trellis.sim.cluster.demand import DemandSeries
from trellis.sim.cluster.state import Admit
from trellis.sim.cluster.telemetry import ClusterWatcher, PodEvent, StepUsage, WorkloadCounters

__all__ = [
    "Admit",
    "ClusterWatcher",
    "ContainerStage",
    "DemandSeries",
    "ModelCluster",
    "ModelContainerTable",
    "PodEvent",
    "StepUsage",
    "WorkloadCounters",
    "apply_patch",
]
