"""The usage model: the usage of every container. It is the one mutable value of the core.

A model belongs to one thread. Pods are tracked, samples and OOM kills come in, rows are saved and restored, and a view
of all rows goes out to recommenders. History survives whatever happens to pods: only garbage collection removes rows.

Garbage collection removes departed pods, once late OOM reports are no longer expected; rows of deleted VPAs; and rows
without slots that are empty, or older than the memory windows while other containers of the VPA run. Each has a grace
period: a VPA that is replaced, a target that is briefly missing and a restart must not lose history.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from trellis.base.errors import InvalidCheckpoint
from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.usage.checkpoints import saved_rows
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import BoolColumn, IntColumn, RowKey
from trellis.core.usage.sample_ingestion import CountedKills, OomRecord, ingest_samples, record_oom_kills
from trellis.core.usage.samples import IngestResult, Measurements, Samples
from trellis.core.usage.settings import Tuning, UsageSettings
from trellis.core.usage.state import UsageState, VpaKey
from trellis.core.usage.tracked_pods import TrackedPod, TrackedPods
from trellis.core.usage.view import RowsView, build_rows_view


class UsageModelSizes(msgspec.Struct, frozen=True):
    """The sizes of a model. `names` counts keys of rows, pods and containers; `bytes` is the size of its columns."""

    vpas: int
    rows: int
    slots: int
    totals: int
    histories: int
    runs: int
    names: int
    bytes: int


class UsageModel:
    """Usage of all containers that VPAs govern."""

    def __init__(self, settings: UsageSettings = UsageSettings()) -> None:  # noqa: B008 - frozen, so that one can serve all
        self.settings = settings
        self._state = UsageState(settings)
        self._pods = TrackedPods(self._state.slots)
        self._counted_kills = CountedKills()

    @property
    def namespaces(self) -> list[str]:
        """The namespaces with tracked pods; `track_pods` without pods removes one."""
        return self._pods.namespaces

    def track_pods(self, namespace: str, pods: Sequence[TrackedPod], now: float) -> None:
        """Track exactly these pods of a namespace. Samples of other pods are dropped."""
        for pod, slots in self._pods.track(namespace, pods, now):
            for container, slot in zip(pod.containers, slots, strict=True):
                self._state.slots.row[slot] = self._state.find_or_add_row(RowKey(namespace, pod.vpa, container.name))
        # Checkpoints leave out the peak of a running container's window. Once it is gone, they include it.
        departed = self._pods.pop_departed_slots()
        departed = departed[~np.isnan(self._state.slots.memory_peak[departed])]
        self._state.rows.mark_unsaved(self._state.slots.row[departed], now)

    def tune(self, namespace: str, vpa: str, container: str, tuning: Tuning | None) -> None:
        """Override how one row counts memory, whether it is there yet or not; with None, as the settings have it."""
        key = RowKey(namespace, vpa, container)
        if tuning is None:
            self._state.tunings.pop(key, None)
        else:
            self._state.tunings[key] = tuning
        row = self._state.rows.find(key)
        if row >= 0:
            self._state.rows.tune(row, tuning or self._state.tuning)

    def keep_totals(self, vpas: Collection[VpaKey]) -> None:
        """Keep the histograms of the whole workload for the rows of exactly these VPAs (namespace, name)."""
        self._state.keep_totals(vpas)

    def keep_history(self, vpas: Collection[VpaKey]) -> None:
        """Keep hourly summaries for the rows of exactly these VPAs (namespace, name)."""
        self._state.keep_history(vpas)

    def keep_runs(self, vpas: Collection[VpaKey]) -> None:
        """Keep the last runs of the rows of exactly these VPAs (namespace, name)."""
        self._state.keep_runs(vpas)

    def ingest(self, samples: Samples, now: float) -> IngestResult:
        """Add a batch of samples, live or past; those of one container are in the order of their times."""
        slots = self._pods.find_slots(samples.namespaces, samples.pods, samples.containers)
        return ingest_samples(self._state, samples.measured, slots, now)

    def find_slots(self, namespaces: Sequence[str], pods: Sequence[str], containers: Sequence[str]) -> IntColumn:
        """The slots of tracked containers, valid while they are tracked; -1 where one is not."""
        return self._pods.find_slots(namespaces, pods, containers)

    def ingest_slots(self, slots: IntColumn, measured: Measurements, now: float) -> IngestResult:
        """Add a batch of samples of the containers in these slots, as `ingest` does without the lookup."""
        return ingest_samples(self._state, measured, slots, now)

    def record_ooms(self, kills: Sequence[OomKill], now: float) -> OomRecord:
        """Count OOM kills, each once; also those of pods that departed a few minutes ago."""
        return record_oom_kills(self._state, self._pods, self._counted_kills, kills, now)

    def restore(self, saved: SavedRow) -> None:
        """Merge a checkpoint into its row, once; a bad one raises `InvalidCheckpoint` and changes nothing."""
        for problem in self.restore_all([saved]).values():
            raise problem

    def restore_all(self, saved: Sequence[SavedRow]) -> dict[RowKey, InvalidCheckpoint]:
        """Merge many checkpoints, ten times faster than one by one; refused ones do not stop the others."""
        return saved_rows.restore_checkpoints(self._state, saved)

    def save_rows(self, rows: IntColumn, now: float) -> list[SavedRow]:
        """Rows as checkpoints have them."""
        return saved_rows.save_rows(self._state, rows, now)

    def select_unsaved(self, now: float, limit: int) -> IntColumn:
        """At most `limit` rows that have something unsaved: OOM kills first, then what has waited for longest."""
        return self._state.rows.select_unsaved(now, limit)

    def mark_saved(self, rows: IntColumn, now: float) -> None:
        """Record that checkpoints are written as `save_rows` gave them, with the same `now`."""
        self._state.rows.mark_saved(rows, now)

    def mark_unsaved(self, rows: IntColumn, now: float) -> None:
        """Record that rows hold what no checkpoint has, such as backfilled history."""
        self._state.rows.mark_unsaved(rows, now)

    def reset_vpa(self, namespace: str, vpa: str) -> None:
        """Clear the rows of a VPA that another process serves from now on, or that has another target."""
        _reset_rows(self._state, (namespace, vpa))

    def collect_garbage(self, alive: Collection[VpaKey], now: float) -> list[RowKey]:
        """Remove unused rows and return their keys. `alive` are all existing VPAs (namespace, name)."""
        return _remove_unused(self._state, self._pods, self._counted_kills, alive, now)

    def view(self, rows: IntColumn | None = None) -> RowsView:
        """The view of given rows, or of all, that recommenders read; valid until the model changes."""
        return build_rows_view(self._state, rows)

    def find_rows(self, keys: Sequence[RowKey]) -> IntColumn:
        """The rows of keys; -1 where there is none."""
        return np.array([self._state.rows.find(key) for key in keys], dtype=np.int64)

    def keys(self, rows: IntColumn) -> list[RowKey]:
        """The keys of rows."""
        return self._state.rows.keys(rows.tolist())

    def sizes(self) -> UsageModelSizes:
        """The sizes of all tables."""
        state = self._state
        return UsageModelSizes(
            vpas=state.vpas.size,
            rows=state.rows.size,
            slots=state.slots.size,
            totals=state.totals.size,
            histories=state.history.size,
            runs=state.runs.size,
            names=state.rows.size + state.vpas.size + len(state.tunings) + len(self._counted_kills) + self._pods.size,
            bytes=state.nbytes,
        )


GRACE_PERIOD = 600.0  # seconds


def _remove_unused(
    state: UsageState, pods: TrackedPods, counted: CountedKills, alive: Collection[VpaKey], now: float
) -> list[RowKey]:
    """Remove unused rows and return their keys. `alive` are all existing VPAs."""
    counted.forget(pods.release(now - GRACE_PERIOD))
    _mark_deleted_vpas(state, frozenset(alive), now)
    rows = state.rows.numbers()
    rows = rows[_find_unused_rows(state, rows, now)]
    keys = state.rows.keys(rows.tolist())
    state.remove_rows(rows)
    _release_vpas(state, now)
    return keys


def _reset_rows(state: UsageState, vpa: VpaKey) -> None:
    """Clear the rows of a VPA; its slots stay, with new memory windows.

    If it is served here again, its history is restored from its checkpoints.
    """
    number = state.vpas.find(vpa)
    if number < 0:
        return
    rows = state.rows.numbers()
    rows = rows[state.rows.vpa[rows] == number]
    state.clear_rows(rows)
    slots = np.flatnonzero(state.slots.used & np.isin(state.slots.row, rows))
    state.slots.reset(slots, ("window_end", "memory_peak", "oom_peak", "total_peak", "total_oom_peak"))


def _mark_deleted_vpas(state: UsageState, alive: frozenset[VpaKey], now: float) -> None:
    numbers = state.vpas.numbers()
    is_alive = np.array([key in alive for key in state.vpas.keys(numbers.tolist())], dtype=np.bool_)
    state.vpas.deleted_at[numbers] = np.where(is_alive, np.nan, np.fmin(state.vpas.deleted_at[numbers], now))


def _find_unused_rows(state: UsageState, rows: IntColumn, now: float) -> BoolColumn:
    table = state.rows
    has_slots = state.slots.count_per_row(state.slots.used, table.capacity)[rows] > 0
    table.idle_since[rows] = np.where(has_slots, np.nan, np.fmin(table.idle_since[rows], now))
    is_vpa_deleted = state.vpas.deleted_at[table.vpa[rows]] <= now - GRACE_PERIOD
    idle = table.idle_since[rows] <= now - GRACE_PERIOD
    empty = (table.count[rows] == 0) & state.cpu.is_empty(rows) & state.memory.is_empty(rows)
    newest = np.where(np.isnan(table.last[rows]), table.idle_since[rows], table.last[rows])
    # A workload without pods may run again, once a month or a year: only beside other containers is one gone for good.
    has_pods = np.zeros(state.vpas.capacity, dtype=np.bool_)
    has_pods[table.vpa[rows][has_slots]] = True
    stale = has_pods[table.vpa[rows]] & (newest <= now - table.memory_window[rows] * table.memory_windows[rows])
    is_unused: BoolColumn = ~has_slots & (is_vpa_deleted | (idle & (empty | stale)))
    return is_unused


def _release_vpas(state: UsageState, now: float) -> None:
    """Release the numbers of deleted VPAs without rows."""
    table = state.vpas
    rows = np.bincount(state.rows.vpa[state.rows.numbers()], minlength=table.capacity)
    released = np.flatnonzero(table.used & (rows == 0) & (table.deleted_at <= now - GRACE_PERIOD))
    if not len(released):
        return
    keys = set(table.keys(released.tolist()))
    table.release(released)
    for key in [key for key in state.tunings if (key.namespace, key.vpa) in keys]:
        del state.tunings[key]
