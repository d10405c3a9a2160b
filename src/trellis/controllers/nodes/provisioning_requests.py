"""ProvisioningRequests in the cluster: their informers, their conditions, and Events about them.

The kind comes and goes with its definition, which queues such as Kueue or an administrator install. The conditions are
written by server-side apply, after the orders for a request have been executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from trellis.api.kube.meta import ObjectReference
from trellis.controllers.buffer_provisioning.buffer_reports import NODES_FIELD_MANAGER
from trellis.controllers.buffer_provisioning.snapshot_changes import RequestInformers
from trellis.controllers.nodes import metrics as named
from trellis.core.nodes.provisioning.decisions import ProvisioningDecision
from trellis.core.nodes.provisioning.status import build_request_conditions
from trellis.kube.discovery import Served
from trellis.kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS
from trellis.kube.write.actions import Action, PatchObject, Target
from trellis.kube.write.patches import apply_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import OptionalKind
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.metrics import Metrics

_WITHOUT: Final = OptionalKind("ProvisioningRequests are not served")


def follow_requests(informers: Informers, served: Served, namespaces: tuple[str, ...]) -> RequestInformers:
    """The informers of ProvisioningRequests and of the PodTemplates that they name."""
    return RequestInformers(
        requests=informers.follow(
            PROVISIONING_REQUESTS,
            namespaces=namespaces,
            dispensable=_WITHOUT,
            served=served.serves(PROVISIONING_REQUESTS),
        ),
        templates=informers.follow(POD_TEMPLATES, namespaces=namespaces, dispensable=_WITHOUT),
    )


class ProvisioningRequestPublisher:
    """Writes the conditions of requests that differ, and reports each change of a reason once.

    `may_publish` says whether what is known can be trusted now. Without `informers` nothing is followed.
    """

    def __init__(
        self,
        informers: RequestInformers | None,
        writer: Writer,
        metrics: Metrics,
        record: EventSink,
        may_publish: Callable[[], bool],
    ) -> None:
        self._informers = informers
        self._writer = writer
        self._metrics = metrics
        self._record = record
        self._may_publish = may_publish
        # The code of the last reason, by the UID of a request.
        self._recorded: dict[str, str] = {}

    def reset(self) -> None:
        """Forget the last reasons, because another process has recorded Events in the meantime."""
        self._recorded = {}

    async def publish(self, decisions: Iterable[ProvisioningDecision]) -> None:
        """Write the conditions that follow from the decisions of a pass."""
        if self._informers is None or not self._may_publish():
            return
        decided = [*decisions]
        actions = [*self._list_actions(self._informers, decided)]
        if actions:
            await self._writer.write_all(actions)
        self._recorded = {decision.uid: decision.reason.reason.code for decision in decided}
        counts: dict[tuple[str, ...], float] = {}
        for decision in decided:
            code = (decision.reason.reason.code,)
            counts[code] = counts.get(code, 0.0) + 1.0
        self._metrics.set_all(named.PROVISIONING_REQUESTS, counts)

    def _list_actions(self, informers: RequestInformers, decisions: Iterable[ProvisioningDecision]) -> Iterator[Action]:
        for decision in decisions:
            request = informers.requests.get(*decision.key)
            if request is None or request.metadata.uid != decision.uid:
                continue
            conditions = build_request_conditions(decision, request.status.conditions, request.metadata.generation)
            if conditions is None:
                continue
            namespace, name = decision.key
            kind = PROVISIONING_REQUESTS
            if self._recorded.get(decision.uid) != decision.reason.reason.code:
                about = ObjectReference(kind.kind, namespace, name, decision.uid, kind.api_version)
                self._record(about, decision.reason.reason, str(decision.reason))
            document = {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": name, "namespace": namespace},
                "status": {"conditions": conditions},
            }
            yield PatchObject(
                Target(kind, name, namespace, decision.uid),
                apply_patch(document, force=True),
                subresource="status",
                field_manager=NODES_FIELD_MANAGER,
            )
