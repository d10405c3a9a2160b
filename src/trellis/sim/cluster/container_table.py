"""The containers of all placed pods, in columns: stage, requests and limits of each.

There is one row for each container of a pod that has a node, from when it is placed until it is gone. Rows change with
events alone; usage reads them all at once, step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from trellis.base.errors import InternalError
from trellis.core.usage.columns import BoolColumn, ColumnTable, FloatColumn, IntColumn

if TYPE_CHECKING:
    from trellis.sim.cluster.pod_state import ModelContainer


class ContainerStage(IntEnum):
    """The stage of a container: down, in the fixed part of its start, in the CPU-bound part, up."""

    DOWN = 0
    WAITING = 1
    STARTING = 2
    UP = 3


class ModelContainerTable(ColumnTable):
    """The containers of all placed pods. Amounts are cores and bytes, as they are in force.

    `version` grows with every change, so that what was read from the columns can be kept until then.
    """

    initial_values = {
        "workload": -1,
        "series": -1,
        "node": -1,
        "pod": -1,
        "stage": int(ContainerStage.DOWN),
        "ready": False,
        "terminating": False,
        "bound_at": np.nan,
        "ready_changed_at": np.nan,
        "started": np.nan,
        "cpu_request": 0.0,
        "cpu_limit": np.inf,
        "memory_request": 0.0,
        "memory_limit": np.inf,
        "spec_cpu_request": 0.0,
        "spec_memory_request": 0.0,
        "factor": 1.0,
    }

    workload: IntColumn
    """The number of its workload in the fleet."""
    series: IntColumn
    """The number of its workload and container together: an index into `ModelCluster.series`."""
    node: IntColumn
    """The number of its node."""
    pod: IntColumn
    """The row of the first container of its pod: what containers of one pod have in common."""
    stage: IntColumn
    """The stage of its start."""
    ready: BoolColumn
    """Whether its pod is Ready and not terminating: such pods share the load."""
    terminating: BoolColumn
    """Whether its pod is terminating."""
    bound_at: FloatColumn
    """When its pod was bound to its node."""
    ready_changed_at: FloatColumn
    """When its pod last became Ready or not Ready; NaN before it runs."""
    started: FloatColumn
    """When it last started, in seconds since 1970."""
    cpu_request: FloatColumn
    """Zero if it has none."""
    cpu_limit: FloatColumn
    """Infinite if it has none."""
    memory_request: FloatColumn
    """Zero if it has none."""
    memory_limit: FloatColumn
    """Infinite if it has none."""
    spec_cpu_request: FloatColumn
    """The request in the pod's spec, which a resize changes before it is in force; zero if it has none."""
    spec_memory_request: FloatColumn
    """The memory request in the pod's spec; zero if it has none."""
    factor: FloatColumn
    """By how much it differs from others of its series."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self._containers: list[ModelContainer | None] = []
        # Namespace, pod and container of each row: columns too, because scaling changes rows all the time.
        self._names = np.empty((3, 0), dtype=np.object_)

    def add(self, container: ModelContainer, workload: int, series: int, node: int, factor: float) -> int:
        """Add a row for a container."""
        row = self._allocate_number()
        self._containers.extend([None] * (row + 1 - len(self._containers)))
        self._containers[row] = container
        if row >= self._names.shape[1]:
            self._names = np.concatenate([self._names, np.empty((3, self.capacity), dtype=np.object_)], axis=1)
        self._names[:, row] = (*container.model_pod.key, container.name)
        self.workload[row], self.series[row], self.node[row], self.factor[row] = workload, series, node, factor
        self.version += 1
        return row

    def remove(self, rows: Iterable[int]) -> None:
        """Free rows."""
        numbers = np.array(list(rows), dtype=np.int64)
        for number in numbers.tolist():
            self._containers[number] = None
        self.release(numbers)
        self.version += 1

    def find_container(self, row: int) -> ModelContainer:
        """The container of a row in use."""
        container = self._containers[row]
        if container is None:
            raise InternalError(f"row {row} is not in use")
        return container

    def find_stopped(self) -> IntColumn:
        """Containers that have run and do not run now: they wait for a restart, and keep their allocation."""
        some = slice(self.numbers_end)
        return np.flatnonzero(
            self.used[some] & (self.stage[some] == ContainerStage.DOWN) & ~np.isnan(self.started[some])
        )

    def has_row(self, container: ModelContainer) -> bool:
        """Whether a container still has its row."""
        return 0 <= container.row < len(self._containers) and self._containers[container.row] is container

    def names(self, rows: IntColumn) -> tuple[list[str], list[str], list[str]]:
        """Namespace, pod and container of rows in use, in columns."""
        namespaces, pods, containers = self._names[:, rows]
        return namespaces.tolist(), pods.tolist(), containers.tolist()
