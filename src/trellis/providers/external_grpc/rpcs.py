"""The calls of the external gRPC protocol, and their errors. There is no handshake: a server answers what it knows."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from trellis.base.errors import TrellisError, escape_unprintable
from trellis.providers.external_grpc.messages import (
    DeleteRequest,
    DeltaRequest,
    Empty,
    GroupAnswer,
    GroupRequest,
    GroupsAnswer,
    InstancesAnswer,
    LabelAnswer,
    NodePriceRequest,
    NodeRequest,
    OptionsAnswer,
    OptionsRequest,
    PriceAnswer,
    TargetAnswer,
    TemplateAnswer,
)
from trellis.providers.external_grpc.protobuf import Message

SERVICE: Final = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class Rpc(msgspec.Struct, Generic[Q, A], frozen=True):
    """A call: its name, and the messages of its request and of its answer."""

    name: str
    request: type[Q]
    answer: type[A]

    @property
    def path(self) -> str:
        """Its path on a server."""
        return f"/{SERVICE}/{self.name}"


REFRESH: Final = Rpc("Refresh", Empty, Empty)
CLEANUP: Final = Rpc("Cleanup", Empty, Empty)
NODE_GROUPS: Final = Rpc("NodeGroups", Empty, GroupsAnswer)
NODE_GROUP_FOR_NODE: Final = Rpc("NodeGroupForNode", NodeRequest, GroupAnswer)
TARGET_SIZE: Final = Rpc("NodeGroupTargetSize", GroupRequest, TargetAnswer)
INCREASE_SIZE: Final = Rpc("NodeGroupIncreaseSize", DeltaRequest, Empty)
DECREASE_TARGET_SIZE: Final = Rpc("NodeGroupDecreaseTargetSize", DeltaRequest, Empty)
DELETE_NODES: Final = Rpc("NodeGroupDeleteNodes", DeleteRequest, Empty)
NODES: Final = Rpc("NodeGroupNodes", GroupRequest, InstancesAnswer)
TEMPLATE: Final = Rpc("NodeGroupTemplateNodeInfo", GroupRequest, TemplateAnswer)
OPTIONS: Final = Rpc("NodeGroupGetOptions", OptionsRequest, OptionsAnswer)
NODE_PRICE: Final = Rpc("PricingNodePrice", NodePriceRequest, PriceAnswer)
POD_PRICE: Final = Rpc("PricingPodPrice", Empty, PriceAnswer)
GPU_LABEL: Final = Rpc("GPULabel", Empty, LabelAnswer)
GPU_TYPES: Final = Rpc("GetAvailableGPUTypes", Empty, Empty)


class CallStatus(StrEnum):
    """How a call ended, by the names that gRPC has for it."""

    OK = "OK"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    DATA_LOSS = "DATA_LOSS"
    UNAUTHENTICATED = "UNAUTHENTICATED"


# After these the server has not answered: it may still carry the request out.
_UNANSWERED: Final = frozenset(
    {
        CallStatus.CANCELLED,
        CallStatus.DEADLINE_EXCEEDED,
        CallStatus.UNAVAILABLE,
        CallStatus.INTERNAL,
        CallStatus.DATA_LOSS,
    }
)


# Servers answer with whole pages of HTML, and details are part of messages.
_MAX_DETAILS: Final = 300


class CallFailed(TrellisError):
    """A call ended without an answer, or with an error: the call, the status and what the server says."""

    def __init__(self, rpc: str, status: CallStatus, details: str) -> None:
        self.status = status
        self.details = escape_unprintable(details)[:_MAX_DETAILS]
        super().__init__(f"{rpc}: {status}{f': {self.details}' if details else ''}")

    @property
    def is_unanswered(self) -> bool:
        """Whether the server may still carry the request out."""
        return self.status in _UNANSWERED


class Caller(Protocol):
    """Sends calls to a server."""

    async def call(self, rpc: Rpc[Q, A], request: Q, /) -> A:
        """The answer; raises `CallFailed`."""
        ...
