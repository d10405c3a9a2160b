"""What is a review answered with? Whatever happens, with an answer, and a pod always with a yes.

The answer is mostly at hand: everything that decides about a pod is known before the pod comes. Only a pod whose
controller nobody here has heard of waits, and not for long. An error of our own leaves the object as it came: there is
a warning for whoever sent it, a number for whoever watches us, and a line in the log for whoever has to find it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import Final, Protocol

import msgspec

from trellis.api.gates import Gates
from trellis.api.kinds import BUFFER, HVPA
from trellis.api.kinds import VPA as VPA_KIND
from trellis.api.kube.decode import decode_object
from trellis.api.kube.pods import Pod
from trellis.base.errors import InvalidReview, UnreadableObject
from trellis.base.reason import Reason, Severity
from trellis.controllers.admission import metrics as named
from trellis.controllers.admission.connections import Reply
from trellis.controllers.admission.http_requests import BadRequest, Request
from trellis.controllers.admission.tally import Tally
from trellis.core.admission.objects import OBJECT_LEFT_ALONE, review_object
from trellis.core.admission.pods import PodVerdict
from trellis.core.admission.reviews import Refusal, Review, answer, read_review
from trellis.core.model.patches import PatchOp
from trellis.runtime.logs import Logger

REVIEW_UNREADABLE = Reason("ReviewUnreadable", "A request was no review that can be answered.", Severity.WARNING)
POD_UNREADABLE = Reason("PodUnreadable", "A new pod could not be read and was left as it came.", Severity.WARNING)
ADMISSION_FAILED = Reason(
    "AdmissionFailed", "An error of our own left an object as it came: please report it.", Severity.ERROR
)

_JSON: Final = "application/json"
_CREATE: Final = "CREATE"
_OURS: Final = {
    (VPA_KIND.group, VPA_KIND.name): named.VPA,
    (HVPA.group, HVPA.name): HVPA.name,
    (BUFFER.group, BUFFER.name): BUFFER.name,
}

_log: Final = Logger("trellis.admission")


class Pods(Protocol):
    """Who decides about pods."""

    def decide(self, pod: Pod, namespace: str) -> PodVerdict | Awaitable[PodVerdict]:
        """What becomes of a new pod."""


class _Outcome(msgspec.Struct, frozen=True):
    """How a review ended, and all that the answer needs."""

    resource: str
    reason: Reason
    status: str = named.SKIPPED
    patch: tuple[PatchOp, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: Refusal | None = None


class _Asked(msgspec.Struct, frozen=True):
    uid: str = ""


class _Envelope(msgspec.Struct, frozen=True):
    request: _Asked = _Asked()


class Answering:
    """Answers requests. It never raises."""

    def __init__(self, pods: Pods, gates: Gates, tally: Tally) -> None:
        self._pods = pods
        self._gates = gates
        self._tally = tally

    def answer(self, request: Request) -> Reply | Awaitable[Reply]:
        """The answer to a request, or somebody to wait for."""
        head = request.head
        if head.method != "POST":
            return self.refuse(BadRequest(405, "a review is sent with POST"))
        kind = head.content_type
        if kind != _JSON and kind.partition(";")[0].strip().lower() != _JSON:
            return self._left_alone(request.body, f"a review must be {_JSON}, not {kind or 'nothing'}")
        return self.review(request.body)

    def refuse(self, error: BadRequest) -> Reply:
        """The answer to what is no request: the status says so, and the body is a yes all the same."""
        self._tally.count(named.REFUSED, str(error.status))
        return Reply(error.status, answer("", warnings=(error.why,)))

    def review(self, body: bytes) -> Reply | Awaitable[Reply]:
        """The answer to a review."""
        began = perf_counter()
        uid = ""
        try:
            review = read_review(body)
            uid = review.uid
            found = self._decide(review)
            if isinstance(found, _Outcome):
                return self._reply(uid, found, began)
        except InvalidReview as error:
            return self._left_alone(body, str(error))
        except Exception as error:  # noqa: BLE001 - anything at all: nobody's pod waits for our mistakes
            return self._failed(uid or _uid_in(body), error, began)
        return self._wait(review, found, began)

    async def _wait(self, review: Review, waiting: Awaitable[_Outcome], began: float) -> Reply:
        try:
            return self._reply(review.uid, await waiting, began)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(review.uid, error, began)

    def _decide(self, review: Review) -> _Outcome | Awaitable[_Outcome]:
        kind = review.kind
        if kind.kind == named.POD and not kind.group:
            return self._decide_pod(review)
        resource = _OURS.get((kind.group, kind.kind))
        if resource is None:
            return _Outcome(named.UNKNOWN, OBJECT_LEFT_ALONE, named.ERROR)
        verdict = review_object(review, self._gates)
        # Upstream counts a refusal as skipped, and so what it let through as it came.
        status = named.APPLIED if verdict.patch else named.SKIPPED
        return _Outcome(resource, verdict.reason, status, verdict.patch, verdict.warnings, verdict.refusal)

    def _decide_pod(self, review: Review) -> _Outcome | Awaitable[_Outcome]:
        if review.operation != _CREATE or review.sub_resource or review.kind.version != "v1" or not review.has_object:
            return _Outcome(named.POD, OBJECT_LEFT_ALONE)
        try:
            pod = decode_object(review.object, Pod)
        except UnreadableObject as error:
            return _Outcome(named.POD, POD_UNREADABLE, named.ERROR, warnings=(str(error),))
        verdict = self._pods.decide(pod, review.namespace)
        if isinstance(verdict, PodVerdict):
            return self._judged(review, pod, verdict)
        return self._judge_later(review, pod, verdict)

    async def _judge_later(self, review: Review, pod: Pod, verdict: Awaitable[PodVerdict]) -> _Outcome:
        return self._judged(review, pod, await verdict)

    def _judged(self, review: Review, pod: Pod, verdict: PodVerdict) -> _Outcome:
        # At 5, because a line takes as long as all the rest: whoever wants to read it pays for it.
        _log.detail(
            5,
            "reviewed a pod",
            namespace=review.namespace,
            pod=pod.metadata.name or f"{pod.metadata.generate_name}%",
            reason=verdict.reason,
            operations=len(verdict.patch),
        )
        status = named.APPLIED if verdict.patch else named.SKIPPED
        return _Outcome(named.POD, verdict.reason, status, verdict.patch, verdict.warnings)

    def _reply(self, uid: str, outcome: _Outcome, began: float) -> Reply:
        decided = perf_counter()
        body = answer(uid, patch=outcome.patch, warnings=outcome.warnings, refusal=outcome.refusal)
        built = perf_counter()
        tally = self._tally
        tally.reviewed(began, decided, built)
        self._count(outcome, built - began)
        return Reply(200, body)

    def _failed(self, uid: str, error: Exception, began: float) -> Reply:
        _log.error("a review failed; the object is left as it came", error=error, uid=uid)
        self._tally.count(named.FAILURES)
        self._count(_Outcome(named.UNKNOWN, ADMISSION_FAILED, named.ERROR), perf_counter() - began)
        return Reply(200, answer(uid, warnings=(f"{ADMISSION_FAILED.meaning} ({type(error).__name__})",)))

    def _left_alone(self, body: bytes, why: str) -> Reply:
        _log.warning("a request is no review that can be answered", why=why)
        self._count(_Outcome(named.UNKNOWN, REVIEW_UNREADABLE, named.ERROR), 0.0)
        return Reply(200, answer(_uid_in(body), warnings=(why,)))

    def _count(self, outcome: _Outcome, seconds: float) -> None:
        tally = self._tally
        tally.count(named.REVIEWS, outcome.resource, outcome.reason.code)
        tally.observe(named.LATENCY, seconds, outcome.status, outcome.resource)
        if outcome.resource == named.POD:
            tally.count(named.PODS, "true" if outcome.status == named.APPLIED else "false")


def _uid_in(body: bytes) -> str:
    """Whose question it was, if that much can be read: an answer without it counts as none."""
    try:
        return msgspec.json.decode(body, type=_Envelope).request.uid
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
