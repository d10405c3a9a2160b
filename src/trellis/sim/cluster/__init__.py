"""What would a cluster make of it? A model of one on virtual time: small enough to read, true where autoscalers look.

kernel = Kernel(fleet.clock.begin)
cluster = Cluster(fleet, kernel, admit, np.random.default_rng(fleet.seed), watcher)
cluster.begin()
for number in range(fleet.clock.steps):
    kernel.run_until(fleet.clock.begin + number * fleet.clock.step)
    usage = cluster.step(number)
"""

from trellis.sim.cluster.cluster import Cluster
from trellis.sim.cluster.patching import patched
from trellis.sim.cluster.rows import RowTable, Stage
from trellis.sim.cluster.state import Admit
from trellis.sim.cluster.tally import Tally
from trellis.sim.cluster.usage import StepUsage
from trellis.sim.cluster.watching import Watcher, What
from trellis.sim.cluster.wishes import Series

__all__ = ["Admit", "Cluster", "RowTable", "Series", "Stage", "StepUsage", "Tally", "Watcher", "What", "patched"]
