"""AdmissionReviews, version v1: the API server's question, and the answer to it.

Only the envelope is read here. The object itself stays as it came, because what is worth reading of it depends on its
kind, and most of what is sent along (managed fields, the user, a copy of the options) is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from trellis.base.errors import Cause, Details, InvalidReview
from trellis.core.cluster.json_patches import PatchOp

VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_NOTHING: Final = msgspec.Raw()
_ABSENT: Final = (b"", b"null")
# A server cuts longer warnings off itself, in the middle of a word.
_LONGEST_WARNING: Final = 250


class _ReviewPart(msgspec.Struct, frozen=True, rename="camel"):
    """A slice of the wire."""


class GroupKind(_ReviewPart, frozen=True):
    """The kind of the object, in the version in which it was sent."""

    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def api_version(self) -> str:
        """Group and version as a manifest spells them."""
        return f"{self.group}/{self.version}" if self.group else self.version


class AdmissionReview(_ReviewPart, frozen=True):
    """One question. `object` and `old_object` are JSON; what is not there is empty."""

    uid: str = ""
    kind: GroupKind = GroupKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    object: msgspec.Raw = _NOTHING
    old_object: msgspec.Raw = _NOTHING
    dry_run: bool | None = False

    @property
    def has_object(self) -> bool:
        """Whether there is an object to look at."""
        return bytes(self.object) not in _ABSENT

    @property
    def has_old_object(self) -> bool:
        """Whether there is one that is stored already."""
        return bytes(self.old_object) not in _ABSENT


class _ReviewRequest(_ReviewPart, frozen=True):
    request: AdmissionReview | None = None
    api_version: str = ""
    kind: str = ""


class AdmissionRefusal(msgspec.Struct, frozen=True):
    """Why an object is refused: one message for people, and cause by cause for their tools."""

    message: str
    details: Details


class _RefusalStatus(_ReviewPart, frozen=True, omit_defaults=True):
    message: str
    details: Details
    status: str = ""
    reason: str = ""
    code: int = 0


class _ReviewResponse(_ReviewPart, frozen=True, omit_defaults=True):
    uid: str | None = None
    allowed: bool | None = None
    status: _RefusalStatus | None = None
    # Bytes are written as base64, as the API server wants a patch.
    patch: bytes = b""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()


class _ReviewEnvelope(_ReviewPart, frozen=True):
    response: _ReviewResponse
    api_version: str = VERSION
    kind: str = _KIND


_decoder: Final = msgspec.json.Decoder(_ReviewRequest)
_encoder: Final = msgspec.json.Encoder()


def read_review(body: bytes) -> AdmissionReview:
    """Read the review in a request's body. Raise `InvalidReview` if it cannot be answered."""
    try:
        review = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReview(_first_bytes(body), f"cannot be read as an {_KIND}: {error}") from error
    if review.kind != _KIND or review.api_version != VERSION:
        received = f"{review.kind or 'nothing'} of {review.api_version or 'no version'}"
        raise InvalidReview(received, f"must be an {_KIND} of {VERSION}")
    if review.request is None:
        raise InvalidReview(_first_bytes(body), "has no request")
    return review.request


def encode_response(
    uid: str, *, patch: Sequence[PatchOp] = (), warnings: Sequence[str] = (), refusal: AdmissionRefusal | None = None
) -> bytes:
    """Encode the answer: allowed, with a patch if there is one, unless there is a refusal."""
    response = _ReviewResponse(
        uid=uid,
        allowed=refusal is None,
        status=_status(refusal),
        patch=_encoder.encode(patch) if patch else b"",
        patch_type="JSONPatch" if patch else "",
        warnings=tuple(map(_shorten, warnings)),
    )
    return _encoder.encode(_ReviewEnvelope(response))


def parse_object(raw: msgspec.Raw) -> Any:
    """The JSON of an object in a review; raises `InvalidReview` if it is none."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReview(_first_bytes(bytes(raw)), f"is not JSON: {error}") from error


def build_refusal(group: str, kind: str, name: str, causes: Sequence[Cause]) -> AdmissionRefusal:
    """A refusal that lists causes, worded as the API server words its own."""
    messages = [f"{cause.field}: {cause.message}" for cause in causes]
    combined = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    details = Details(name=name, group=group, kind=kind, causes=tuple(causes))
    return AdmissionRefusal(f'{kind}.{group} "{name}" is invalid: {combined}', details)


def _status(refusal: AdmissionRefusal | None) -> _RefusalStatus | None:
    if refusal is None:
        return None
    return _RefusalStatus(refusal.message, refusal.details, status="Failure", reason="Invalid", code=422)


def _shorten(warning: str) -> str:
    return warning if len(warning) <= _LONGEST_WARNING else f"{warning[: _LONGEST_WARNING - 3]}..."


def _first_bytes(body: bytes) -> str:
    return bytes(body[:200]).decode(errors="replace")
