"""Asks Kubernetes' own code for the answers of an API server.

`Oracle` asks the program in `tests/oracle`, which is made of the API server's own code. Use it as a
context manager, or take the session fixture `oracle` in a contract test.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from oracle.answers import (
    FAULT,
    About,
    Batch,
    DefinitionVerdict,
    DocumentVerdict,
    DurationVerdict,
    Gvk,
    ObjectVerdict,
    QuantityVerdict,
    SelectorVerdict,
    Verdict,
)
from oracle.build import program

V = TypeVar("V", bound=Verdict)

# How long the child may take to end once its input has ended. It has nothing left to do by then.
GRACE_SECONDS = 5.0


class OracleError(RuntimeError):
    """No verdict: the request was wrong, the API server's code panicked, or the oracle has died."""


class Oracle:
    """A conversation with one oracle. Definitions that are loaded stay until it ends."""

    def __init__(self, executable: Path | None = None) -> None:
        command = [executable or program()]
        # A file and not a pipe: nobody reads along, and a full pipe would stop the child for good.
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child by ending its input; end it harder only if that is not enough."""
        if self._complaints.closed:
            return
        try:
            self._child.communicate(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.terminate()
            self._child.communicate()
        self._complaints.close()

    def about(self) -> About:
        return self._send(About, op="about")

    def quantity(self, value: str) -> QuantityVerdict:
        return self._send(QuantityVerdict, op="quantity", value=value)

    def quantities(self, values: Iterable[str]) -> tuple[QuantityVerdict, ...]:
        return self._send_batch(QuantityVerdict, op="quantities", values=list(values))

    def duration(self, value: str) -> DurationVerdict:
        return self._send(DurationVerdict, op="duration", value=value)

    def selector(self, value: str, labels: Mapping[str, str] | None = None) -> SelectorVerdict:
        """The text form: `a=b,c in (x,y),!d`."""
        return self._send(SelectorVerdict, op="selector", value=value, labels=labels)

    def label_selector(self, selector: object, labels: Mapping[str, str] | None = None) -> SelectorVerdict:
        """The object form, with `matchLabels` and `matchExpressions`."""
        return self._send(SelectorVerdict, op="label_selector", selector=selector, labels=labels)

    def yaml(self, text: str) -> DocumentVerdict:
        """One document."""
        return self._send(DocumentVerdict, op="yaml", text=text)

    def load_crd(self, crd: object) -> DefinitionVerdict:
        """Create a definition. Its served versions can be used in `validate` if nothing is wrong."""
        return self._send(DefinitionVerdict, op="load_crd", crd=crd)

    def validate(self, gvk: Gvk, obj: object, *, old: object | None = None, subresource: str = "") -> ObjectVerdict:
        """Create an object, or update `old` to it; with `subresource="status"`, write its status.

        Anything that msgspec can write as JSON will do; `msgspec.Raw` is sent as it stands.
        """
        return self._send(ObjectVerdict, op="validate", **gvk._asdict(), object=obj, old=old, subresource=subresource)

    def validate_all(self, gvk: Gvk, objects: Iterable[object], *, subresource: str = "") -> tuple[ObjectVerdict, ...]:
        """Create each of them, independently of the others."""
        return self._send_batch(
            ObjectVerdict,
            op="validate_many",
            **gvk._asdict(),
            objects=list(objects),
            subresource=subresource,
        )

    def _send(self, verdict_type: type[V], **request: Any) -> V:
        line = self._exchange(msgspec.json.encode(request))
        # Not strict: the oracle sends 64-bit numbers as text.
        return _check_for_fault(msgspec.json.decode(line, type=verdict_type, strict=False))

    def _send_batch(self, verdict_type: type[V], **request: Any) -> tuple[V, ...]:
        line = self._exchange(msgspec.json.encode(request))
        batch = msgspec.json.decode(line, type=Batch[verdict_type], strict=False)  # type: ignore[valid-type]
        return tuple(_check_for_fault(result) for result in _check_for_fault(batch).results)

    def _exchange(self, request: bytes) -> bytes:
        """One line out, one line in. The child reads the whole line before it writes, so neither waits."""
        if self._complaints.closed:
            raise OracleError("the conversation with the oracle has been closed")
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(request + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise OracleError(self._describe_exit()) from error
        response = self._child.stdout.readline()
        if not response.endswith(b"\n"):
            raise OracleError(self._describe_exit())
        return response

    def _describe_exit(self) -> str:
        self._complaints.seek(0)
        result = self._complaints.read().decode(errors="replace").strip()
        return f"the oracle has died: {result[-4000:] or 'it did not say why'}"


def _check_for_fault(verdict: V) -> V:
    for problem in verdict.errors:
        if problem.type == FAULT:
            raise OracleError(problem.text)
    return verdict
