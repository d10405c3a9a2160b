"""What has a plan for fewer nodes decided so far? Kept together until every node has had its turn."""

from __future__ import annotations

from trellis.core.buffers.said import Said
from trellis.core.nodes.down_actions import DownAction
from trellis.core.nodes.down_look import DownLook
from trellis.core.nodes.down_memory import DownMemory, Held, Removal
from trellis.core.nodes.down_verdicts import DownPlan, NodeVerdict, Outcome
from trellis.core.nodes.removing import Stepped


class Notes:
    """Verdicts, actions, and what to remember. `removals` are those that go on."""

    def __init__(self, look: DownLook, added: float) -> None:
        self.removals: dict[str, Removal] = {}
        self.deleted = look.memory.deleted
        self.failed = look.memory.failed
        self.added = added
        self._look = look
        self._actions: list[DownAction] = []
        self._verdicts: dict[str, NodeVerdict] = {}
        self._unneeded: dict[str, float] = {}
        self._held: dict[str, Held] = {}

    def has(self, name: str) -> bool:
        """Whether something has been said of a node already."""
        return name in self._verdicts

    def gone(self) -> None:
        """A node that was being removed is there no more."""
        self.deleted = self._look.now

    def keep(self, name: str, said: Said) -> None:
        """A node stays."""
        self._tell(name, Outcome.KEPT, said)

    def hold(self, name: str, held: Held) -> None:
        """A node stays, and is not tried again for a while."""
        self._held[name] = held
        outcome = Outcome.KEPT if held.since is None else Outcome.UNNEEDED
        self._tell(name, outcome, held.said, held.since, held.until)

    def unneeded(self, name: str, said: Said, since: float, look: float | None) -> None:
        """A node is not needed, and stays for now."""
        self._unneeded[name] = since
        self._tell(name, Outcome.UNNEEDED, said, since, look)

    def leave(self, removal: Removal, said: Said) -> None:
        """A node is on its way out without our help."""
        self.removals[removal.node] = removal
        self._tell(removal.node, Outcome.LEAVING, said, removal.since)

    def step(self, name: str, stepped: Stepped) -> None:
        """A node comes a step nearer to its end, or is kept after all."""
        self._actions += stepped.actions
        removal = stepped.removal
        if removal is None:
            self.failed = self._look.now if stepped.failed else self.failed
            self._tell(name, Outcome.KEPT, stepped.said)
        else:
            self.removals[name] = removal
            self._tell(name, Outcome.LEAVING, stepped.said, removal.since, stepped.look)

    def plan(self) -> DownPlan:
        """All of it."""
        memory = DownMemory(self._unneeded, self._held, self.removals, self.added, self.deleted, self.failed)
        looks = [each.look for each in self._verdicts.values() if each.look is not None]
        return DownPlan(tuple(self._actions), tuple(self._verdicts.values()), memory, min(looks, default=None))

    def _tell(
        self, name: str, outcome: Outcome, said: Said, since: float | None = None, look: float | None = None
    ) -> None:
        used = float(self._look.used[self._look.snapshot.table.find(name)])
        self._verdicts[name] = NodeVerdict(name, outcome, said, used, since, look)
