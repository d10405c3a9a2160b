"""The plug-in of the provider karpenter: follows NodeClaims, and the ConfigMap of its groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from trellis.kube.resources import NODE_CLAIMS
from trellis.providers.declared.config_maps import follow_config_map
from trellis.providers.node_claims.provider import ClaimObjects, NodeClaimProvider
from trellis.providers.node_claims.settings import NodeClaimSettings
from trellis.providers.plugins import ProviderContext, RunningProvider
from trellis.runtime.optional_kinds import OptionalKind

_WITHOUT: Final = OptionalKind("the provider karpenter has no node groups")
# An API server that has just started does not serve custom resources for a moment.
_REMOVAL_GRACE_SECONDS: Final = 60.0


@asynccontextmanager
async def open_karpenter(context: ProviderContext) -> AsyncIterator[RunningProvider]:
    settings = context.section(NodeClaimSettings)
    where, timeout = settings.karpenter_node_groups, settings.karpenter_launch_timeout.total_seconds()
    provider = NodeClaimProvider(follow_claim_objects(context, where), where, timeout)
    yield RunningProvider(provider, context.writer)


def follow_claim_objects(context: ProviderContext, where: str) -> Callable[[], ClaimObjects]:
    """Follow NodeClaims and the ConfigMap `where`; the objects that the provider reads, as they are at each call."""
    config = follow_config_map(context, where)
    claims = context.informers.follow(
        NODE_CLAIMS,
        served=context.served.serves(NODE_CLAIMS),
        dispensable=_WITHOUT,
        removal_grace=_REMOVAL_GRACE_SECONDS,
    )
    claims.subscribe(lambda _change: context.on_change())

    def read() -> ClaimObjects:
        is_readable = context.informers.is_available(claims)
        return ClaimObjects(config(), context.list_nodes(), claims.snapshot().objects.values() if is_readable else None)

    return read
