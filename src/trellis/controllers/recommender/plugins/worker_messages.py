"""Messages between the recommender and a worker process: frames of a mark, a length, and a payload.

Requests are pickles, which hold columns as they lie in memory. Replies are data that is validated when it is read: a
worker runs other people's code, and unpickling its replies would run it here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import Estimates, Rows
from trellis.core.recommend.validation import RecommenderDeclaration
from trellis.core.usage.columns import FloatColumn

HEADER: Final = struct.Struct("!4sQ")
MARK: Final = b"TRL1"
LONGEST: Final = 1 << 31  # longer than any reply


class LoadRequest(msgspec.Struct, frozen=True):
    """The first message to a worker: what to load from where, and its limits. 0 sets no limit of memory.

    `value` is that of an entry point, such as `package.module:Class`. `kill_after` is after how many seconds of one
    request the kernel ends the process, if the parent has not done so.
    """

    path: list[str]
    value: str
    memory: int
    kill_after: float


class EstimateRequest(msgspec.Struct, frozen=True):
    """A request for estimates of these rows."""

    rows: Rows
    values: ParameterValues
    now: float


class ColumnMessage(msgspec.Struct, frozen=True):
    """Floats: their shape, and their bytes as they lie in memory."""

    shape: tuple[int, ...]
    floats: bytes

    @classmethod
    def from_column(cls, column: FloatColumn) -> ColumnMessage:
        """The message of a column."""
        contiguous = np.ascontiguousarray(column)
        return cls(contiguous.shape, contiguous.tobytes())

    def read(self) -> FloatColumn:
        """The column that was sent; `ValueError` if there are not as many bytes as its shape says."""
        return np.frombuffer(self.floats, dtype=np.float64).reshape(self.shape)


class LoadReply(msgspec.Struct, frozen=True, tag=True):
    """The recommender is loaded, with its declaration."""

    declaration: RecommenderDeclaration


class LoadFailure(msgspec.Struct, frozen=True, tag=True):
    """The recommender cannot be loaded, with the reason."""

    problem: str


class EstimateReply(msgspec.Struct, frozen=True, tag=True):
    """The estimates of a recommender."""

    bounds: ColumnMessage
    totals: ColumnMessage | None
    confidence: ColumnMessage | None
    numbers: Mapping[str, ColumnMessage]
    texts: Mapping[str, Sequence[str]]


class EstimateFailure(msgspec.Struct, frozen=True, tag=True):
    """The recommender raised an error, or its estimates are invalid."""

    problem: str
    out_of_memory: bool = False


WorkerReply: TypeAlias = LoadReply | LoadFailure | EstimateReply | EstimateFailure

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[WorkerReply]] = msgspec.msgpack.Decoder(WorkerReply)


def frame(payload: bytes) -> bytes:
    """The mark and the length in front of a message."""
    return HEADER.pack(MARK, len(payload)) + payload


def encode(reply: WorkerReply) -> bytes:
    """Encode the reply of a worker."""
    return _ENCODER.encode(reply)


def decode(payload: bytes) -> WorkerReply:
    """Decode the reply of a worker; `ValueError` if it is not valid."""
    return _DECODER.decode(payload)


def to_reply(estimates: Estimates) -> EstimateReply:
    """The reply message of estimates of the right shape."""
    columns = {name: column for name, column in estimates.explanation.items() if isinstance(column, np.ndarray)}
    return EstimateReply(
        bounds=ColumnMessage.from_column(estimates.bounds),
        totals=None if estimates.totals is None else ColumnMessage.from_column(estimates.totals),
        confidence=None if estimates.confidence is None else ColumnMessage.from_column(estimates.confidence),
        numbers={name: ColumnMessage.from_column(column) for name, column in columns.items()},
        texts={name: list(map(str, texts)) for name, texts in estimates.explanation.items() if name not in columns},
    )


def from_reply(reply: EstimateReply) -> Estimates:
    """The estimates of a reply message; `ValueError` if a column has another size."""
    numbers = {name: column.read() for name, column in reply.numbers.items()}
    return Estimates(
        bounds=reply.bounds.read(),
        totals=None if reply.totals is None else reply.totals.read(),
        confidence=None if reply.confidence is None else reply.confidence.read(),
        explanation={**numbers, **reply.texts},
    )
