"""Which nodes would have to be ordered for pods that have no place?

Round by round the best group is chosen for all that is left, by an estimate for all groups at once, and the pods are
then put on new nodes of it one kind after the other, each on the first that takes it. A node is only opened for a pod
that no open one takes, so that rules about other pods see no more nodes than there would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trellis.core.nodes.domains import open_to, spread_parts
from trellis.core.nodes.estimating import IntMatrix, estimate
from trellis.core.nodes.expanders import Expander, Options, best
from trellis.core.nodes.limits import Limits
from trellis.core.nodes.needs import Need, rooms_for
from trellis.core.nodes.similar import shared_out
from trellis.core.nodes.trial import Trial
from trellis.core.nodes.worlds import World
from trellis.core.usage.columns import IntColumn

# Beyond one round for each group: rules about other pods may bring pods back to a group that could take no more.
_MORE_ROUNDS: Final = 64


class Opening:
    """Opens nodes for needs, within limits. `similar` has for each group those that are alike."""

    def __init__(
        self, trial: Trial, limits: Limits, expanders: Sequence[Expander], similar: Sequence[IntColumn] | None
    ) -> None:
        self._trial = trial
        self._limits = limits
        self._expanders = expanders
        self._similar = similar
        self._sizes = np.array([each.target for each in trial.templates.states], dtype=np.int64)

    def open(self, needs: Sequence[Need], world: World) -> None:
        """Put as many as possible on new nodes; what cannot be is left."""
        templates = self._trial.templates
        if not needs or not len(templates):
            return
        first = np.stack([rooms_for(templates, each.demand) for each in needs])
        before = -1
        # Who looks for company may find it once others have a place.
        while before != sum(each.left for each in needs):
            before = sum(each.left for each in needs)
            self._rounds(needs, first.copy(), first, world)
            if not any(each.left and each.demand.near for each in needs):
                return

    def _rounds(self, needs: Sequence[Need], rooms: IntMatrix, first: IntMatrix, world: World) -> None:
        for _ in range(len(self._trial.templates) + _MORE_ROUNDS):
            options = estimate(self._trial.templates, needs, rooms, self._limits.rooms())
            if options is None:
                return
            self._round(needs, rooms, first, world, options)

    def _round(self, needs: Sequence[Need], rooms: IntMatrix, first: IntMatrix, world: World, options: Options) -> None:
        """Serve all that the best group can hold, in their order. Who is left over does not come back to it."""
        group = best(options, self._expanders)
        for at, need in enumerate(needs):
            if not need.left or not rooms[at, group]:
                continue
            before = need.left
            goes_by_domains = need.demand.near or need.demand.spread
            members = (
                self._in_domains(need, world, rooms[at], options) if goes_by_domains else self._alike(group, rooms[at])
            )
            if not len(members):
                rooms[at] = 0
                continue
            self._serve(need, world, members, int(rooms[at, members].max()))
            if need.goes_by_others and need.left < before:
                # Where these are now may have opened a domain of another group to the others.
                rooms[at] = first[at]
            if need.left:
                rooms[at, members] = 0

    def _alike(self, group: int, rooms: IntColumn) -> IntColumn:
        """The groups that grow evenly with one, as far as they can help."""
        alike = self._similar[group] if self._similar is not None else np.array([group], dtype=np.int64)
        return alike[rooms[alike] > 0]

    def _in_domains(self, need: Need, world: World, rooms: IntColumn, options: Options) -> IntColumn:
        """The best group of where pods find company, or of each domain over which they are spread."""
        able = options.take(np.flatnonzero(rooms[options.groups]))
        if need.demand.near:
            able = able.take(np.flatnonzero(open_to(self._trial, world, need.demand, able.groups)))
            parts = [able] if len(able.groups) else []
        else:
            parts = [able.take(part) for part in spread_parts(self._trial.templates, need.demand, able.groups)]
        return np.array([best(each, self._expanders) for each in parts], dtype=np.int64)

    def _serve(self, need: Need, world: World, members: IntColumn, most_on_one: int) -> None:
        trial = self._trial
        everywhere = np.concatenate((trial.ready, trial.coming))
        nodes = np.concatenate((everywhere, trial.new)) if need.goes_by_others else trial.new
        need.placed(trial.put(world, need.demand, need.left, nodes))
        rate = float(most_on_one)
        while need.left:
            # One in every domain at least, or the pods cannot lie evenly.
            fewest = min(len(members), need.left) if need.demand.spread else 1
            sizes = np.zeros_like(members) if need.demand.spread else self._sizes[members]
            rows = self._rows(members, sizes, max(int(np.ceil(need.left / rate)), fewest))
            if not len(rows):
                return
            nodes = np.concatenate((everywhere, trial.new)) if need.goes_by_others else rows
            found = trial.put(world, need.demand, need.left, nodes)
            need.placed(found)
            self._give_back(rows[~trial.mask(found)[rows]])
            if not len(found):
                return
            rate = min(max(len(found) / len(rows), 1.0), rate)

    def _rows(self, members: IntColumn, sizes: IntColumn, count: int) -> IntColumn:
        allowed = np.array([self._limits.room(each) for each in members.tolist()], dtype=np.int64)
        wanted = shared_out(count, sizes, allowed)
        opened: list[IntColumn] = []
        for group, each in zip(members.tolist(), wanted.tolist(), strict=True):
            # The limits of the cluster are shared: what one group has taken is not there for the next.
            given = min(each, self._limits.room(group))
            if given:
                opened.append(self._trial.open(group, given))
                self._limits.take(group, given)
                self._sizes[group] += given
        return np.concatenate(opened) if opened else np.zeros(0, dtype=np.int64)

    def _give_back(self, rows: IntColumn) -> None:
        groups = self._trial.groups_of(rows)
        for group, count in zip(*(each.tolist() for each in np.unique(groups, return_counts=True)), strict=True):
            self._limits.take(group, -count)
            self._sizes[group] -= count
        if len(rows):
            self._trial.close(rows)
