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


class LeaseObserver:
    """One Lease. `is_held` is None until the API server has answered; `trouble` is why it has not."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.is_held: bool | None = None
        self.trouble = ""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._seen: Seen | None = None

    async def poll(self) -> None:
        """Read the record. Without an answer the last one stands, until the record it was about has run out."""
        clock = asyncio.get_running_loop().time
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._seen, self.is_held, self.trouble = None, False, ""
            return
        except Forbidden as error:
            # Whoever may not know whether the other one runs must not write beside it.
            self.is_held, self.trouble = True, str(error)
            return
        except (KubeError, UnreadableObject) as error:
            self.trouble = str(error)
            return
        self._seen = look(self._seen, lease, clock())
        self.is_held, self.trouble = clock() < free_at(self._seen, _DURATION), ""
