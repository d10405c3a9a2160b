"""How does a record get into a Lease that is there? As a patch, or as the whole Lease where that alone is allowed.

Our roles grant `patch` on Leases and upstream's grant `update`, so that who runs under upstream's is refused the first.
Then the Lease is read, its record exchanged and the rest left as it is, and from there on that is the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.base.errors import Conflict, KubeError
from trellis.kube.actions import PatchObject, ReplaceObject, Target
from trellis.kube.client import Client
from trellis.kube.outcomes import Outcome, Result, outcome_of
from trellis.kube.patches import merge_patch
from trellis.kube.requests import build_get
from trellis.kube.writer import Writer


class LeaseWrites:
    """Writes records into Leases, in the way that is allowed."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client = client
        self._writer = writer
        self._replaces = False

    async def write(self, target: Target, record: Mapping[str, Any]) -> Outcome:
        """Set these fields of the record, on condition that the Lease is the one that the target describes."""
        outcome = await self._attempt(target, record)
        self._writer.record(outcome)
        return outcome

    async def _attempt(self, target: Target, record: Mapping[str, Any]) -> Outcome:
        if not self._replaces:
            outcome = await self._writer.attempt(PatchObject(target, merge_patch({"spec": record})))
            if outcome.result is not Result.FORBIDDEN:
                return outcome
        outcome = await self._replace(target, record)
        # Two refusals say nothing about which of the two is the way: a server that has just started forbids everything.
        self._replaces = outcome.result is not Result.FORBIDDEN
        return outcome

    async def _replace(self, target: Target, record: Mapping[str, Any]) -> Outcome:
        action = ReplaceObject(target, {})
        try:
            response = await self._client.send(build_get(target.resource, target.name, target.namespace))
            document: dict[str, Any] = msgspec.json.decode(response.body, type=dict[str, Any])
        except KubeError as error:
            return outcome_of(action, error)
        version = document.get("metadata", {}).get("resourceVersion", "")
        if target.resource_version and version != target.resource_version:
            message = f"the version is {version}, and not {target.resource_version} any more"
            return outcome_of(action, Conflict(409, "Conflict", message))
        document["spec"] = {**document.get("spec", {}), **record}
        return await self._writer.attempt(ReplaceObject(target, document))
