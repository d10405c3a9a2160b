"""Is a Lease held, by whomever? For components that yield to another one while it runs.

As in an election, no clock is compared with the times in the record: a holder is gone once the record has been seen
unchanged for its duration.
"""

from __future__ import annotations

import asyncio
from typing import Final

from trellis.base.errors import Forbidden, KubeError, NotFound, UnreadableObject
from trellis.kube.client import Client
from trellis.kube.lease_record import Seen, free_at, look
from trellis.kube.resources import LEASES

# A record without a duration is believed for as long as Kubernetes' own leases last.
_DURATION: Final = 15.0
# Candidates look every 2 s, stretched by up to 2.2: a lease that is free for longer has none.
_GRACE_SECONDS: Final = 5.0


class LeaseObserver:
    """One Lease. `is_held` is None until the API server has answered; `trouble` is why it has not."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.is_held: bool | None = None
        self.trouble = ""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._seen: Seen | None = None
        self._free_since: float | None = None

    async def poll(self) -> None:
        """Read the record. Without an answer the last one stands, until the record it was about has run out."""
        clock = asyncio.get_running_loop().time
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._seen, self.trouble = None, ""
            self._note(is_free=True)
            return
        except Forbidden as error:
            # Without the right to read the Lease, the other writer may run: do not write beside it.
            self.trouble = str(error)
            self._note(is_free=False)
            return
        except (KubeError, UnreadableObject) as error:
            self.trouble = str(error)
            return
        self._seen = look(self._seen, lease, clock())
        self.trouble = ""
        self._note(is_free=clock() >= free_at(self._seen, _DURATION))

    def _note(self, *, is_free: bool) -> None:
        """A lease that has just become free may be taken by the next candidate at any moment."""
        now = asyncio.get_running_loop().time()
        if not is_free:
            self._free_since, self.is_held = None, True
            return
        self._free_since = now if self._free_since is None else self._free_since
        if now - self._free_since >= _GRACE_SECONDS:
            self.is_held = False
