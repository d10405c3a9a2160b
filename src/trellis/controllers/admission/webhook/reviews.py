"""Answers reviews. Every request gets an answer, and every pod is admitted.

Everything that decides about a pod is cached before it is created, so most answers are immediate. Only a pod whose
controller is not in the cache waits, and not for long. After an internal error the object is admitted unchanged, with a
warning for its author, a metric, and a line in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final, Protocol

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.api.kube.decoder import decode_object
from trellis.api.kube.pods import Pod
from trellis.api.registry import BUFFER, HVPA
from trellis.api.registry import VPA as VPA_KIND
from trellis.base.errors import InvalidReview, UnreadableObject
from trellis.base.reasons import Reason, Severity
from trellis.controllers.admission import metrics as named
from trellis.controllers.admission.metrics import ReviewMetrics
from trellis.controllers.admission.webhook.http_requests import BadRequest, HttpRequest
from trellis.controllers.admission.webhook.owner_lookups import OwnerLookups
from trellis.controllers.admission.webhook.server import HttpReply
from trellis.core.admission.decisions import NOT_GOVERNED, PodAdmitter
from trellis.core.admission.governor_index import GovernorIndex
from trellis.core.admission.objects import OBJECT_LEFT_ALONE, review_object
from trellis.core.admission.pods import PodAdmissionDecision
from trellis.core.admission.reviews import AdmissionRefusal, AdmissionReview, encode_answer, read_review
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.owners import TargetRef, build_controller_ref
from trellis.core.recommend.capping import NamespaceLimits
from trellis.runtime.telemetry.logs import Logger

ADMISSION_NOT_READY = Reason(
    "AdmissionNotReady", "A new pod came before everything had been seen, and was left as it came.", Severity.WARNING
)

_NOT_READY: Final = PodAdmissionDecision(ADMISSION_NOT_READY, warnings=(ADMISSION_NOT_READY.meaning,))


class PodDecisions:
    """Decides about pods, from what is known; before it `is_ready` they are left as they come."""

    def __init__(
        self,
        governors: GovernorIndex,
        lookups: OwnerLookups,
        limits: Callable[[str], NamespaceLimits],
        boost: BoostSettings,
        ceiling: Callable[[Pod], CpuCeiling | None],
        *,
        is_ready: Callable[[], bool],
    ) -> None:
        self._governors = governors
        self._lookups = lookups
        self.rules = PodAdmitter(governors, limits, boost, ceiling)
        self._is_ready = is_ready

    def decide(self, pod: Pod, namespace: str) -> PodAdmissionDecision | Awaitable[PodAdmissionDecision]:
        """The verdict, or somebody to wait for if the pod's controller has to be asked for."""
        if not self._is_ready():
            return _NOT_READY
        # Most namespaces have nothing that sizes pods, and then nothing is worth knowing.
        if not self._governors.rules_in(namespace):
            return NOT_GOVERNED
        controller = build_controller_ref(namespace, pod.metadata.controller)
        if controller is None:
            return NOT_GOVERNED
        owners = self._lookups.owners
        chain = owners.follow(controller)
        if chain.topmost is None and self._lookups.can_be_asked(controller):
            return self._decide_later(pod, controller)
        return self.rules.decide(pod, namespace, chain, owners)

    async def _decide_later(self, pod: Pod, controller: TargetRef) -> PodAdmissionDecision:
        chain = await self._lookups.resolve(controller)
        return self.rules.decide(pod, controller.namespace, chain, self._lookups.owners)


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


class PodReviewer(Protocol):
    """Who decides about pods."""

    def decide(self, pod: Pod, namespace: str) -> PodAdmissionDecision | Awaitable[PodAdmissionDecision]:
        """What becomes of a new pod."""


class _ReviewResult(msgspec.Struct, frozen=True):
    """How a review ended, and all that the answer needs."""

    resource: str
    reason: Reason
    status: str = named.SKIPPED
    patch: tuple[PatchOp, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: AdmissionRefusal | None = None


class _RequestUid(msgspec.Struct, frozen=True):
    uid: str = ""


class _UidEnvelope(msgspec.Struct, frozen=True):
    request: _RequestUid = _RequestUid()


class ReviewHandler:
    """Answers requests. It never raises."""

    def __init__(self, pods: PodReviewer, gates: FeatureGates, tally: ReviewMetrics) -> None:
        self._pods = pods
        self._gates = gates
        self._tally = tally

    def answer(self, request: HttpRequest) -> HttpReply | Awaitable[HttpReply]:
        """The answer to a request, or somebody to wait for."""
        if request.method != "POST":
            return self.refuse(BadRequest(405, "a review is sent with POST"))
        media_type = request.content_type
        if media_type != _JSON and media_type.partition(";")[0].strip().lower() != _JSON:
            return self._left_alone(request.body, f"a review must be {_JSON}, not {media_type or 'nothing'}")
        return self.review(request.body)

    def refuse(self, error: BadRequest) -> HttpReply:
        """The answer to what is no request: the status says so, and the body is a yes all the same."""
        self._tally.count(named.REFUSED, str(error.status))
        return HttpReply(error.status, encode_answer("", warnings=(error.message,)))

    def review(self, body: bytes) -> HttpReply | Awaitable[HttpReply]:
        """The answer to a review."""
        began = perf_counter()
        uid = ""
        try:
            review = read_review(body)
            uid = review.uid
            found = self._decide(review)
            if isinstance(found, _ReviewResult):
                return self._reply(uid, found, began)
        except InvalidReview as error:
            return self._left_alone(body, str(error))
        except Exception as error:  # noqa: BLE001 - anything at all: nobody's pod waits for our mistakes
            return self._failed(uid or _uid_in(body), error, began)
        return self._wait(review, found, began)

    async def _wait(self, review: AdmissionReview, waiting: Awaitable[_ReviewResult], began: float) -> HttpReply:
        try:
            return self._reply(review.uid, await waiting, began)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(review.uid, error, began)

    def _decide(self, review: AdmissionReview) -> _ReviewResult | Awaitable[_ReviewResult]:
        kind = review.kind
        if kind.kind == named.POD and not kind.group:
            return self._decide_pod(review)
        resource = _OURS.get((kind.group, kind.kind))
        if resource is None:
            return _ReviewResult(named.UNKNOWN, OBJECT_LEFT_ALONE, named.ERROR)
        verdict = review_object(review, self._gates)
        # Upstream counts a refusal as skipped, and so what it let through as it came.
        status = named.APPLIED if verdict.patch else named.SKIPPED
        return _ReviewResult(resource, verdict.reason, status, verdict.patch, verdict.warnings, verdict.refusal)

    def _decide_pod(self, review: AdmissionReview) -> _ReviewResult | Awaitable[_ReviewResult]:
        if review.operation != _CREATE or review.sub_resource or review.kind.version != "v1" or not review.has_object:
            return _ReviewResult(named.POD, OBJECT_LEFT_ALONE)
        try:
            pod = decode_object(review.object, Pod)
        except UnreadableObject as error:
            return _ReviewResult(named.POD, POD_UNREADABLE, named.ERROR, warnings=(str(error),))
        verdict = self._pods.decide(pod, review.namespace)
        if isinstance(verdict, PodAdmissionDecision):
            return self._judged(review, pod, verdict)
        return self._judge_later(review, pod, verdict)

    async def _judge_later(
        self, review: AdmissionReview, pod: Pod, verdict: Awaitable[PodAdmissionDecision]
    ) -> _ReviewResult:
        return self._judged(review, pod, await verdict)

    def _judged(self, review: AdmissionReview, pod: Pod, verdict: PodAdmissionDecision) -> _ReviewResult:
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
        return _ReviewResult(named.POD, verdict.reason, status, verdict.patch, verdict.warnings)

    def _reply(self, uid: str, outcome: _ReviewResult, began: float) -> HttpReply:
        decided = perf_counter()
        body = encode_answer(uid, patch=outcome.patch, warnings=outcome.warnings, refusal=outcome.refusal)
        built = perf_counter()
        tally = self._tally
        tally.reviewed(began, decided, built)
        self._count(outcome, built - began)
        return HttpReply(200, body)

    def _failed(self, uid: str, error: Exception, began: float) -> HttpReply:
        _log.error("a review failed; the object is left as it came", error=error, uid=uid)
        self._tally.count(named.FAILURES)
        self._count(_ReviewResult(named.UNKNOWN, ADMISSION_FAILED, named.ERROR), perf_counter() - began)
        return HttpReply(200, encode_answer(uid, warnings=(f"{ADMISSION_FAILED.meaning} ({type(error).__name__})",)))

    def _left_alone(self, body: bytes, why: str) -> HttpReply:
        _log.warning("a request is no review that can be answered", why=why)
        self._count(_ReviewResult(named.UNKNOWN, REVIEW_UNREADABLE, named.ERROR), 0.0)
        return HttpReply(200, encode_answer(_uid_in(body), warnings=(why,)))

    def _count(self, outcome: _ReviewResult, seconds: float) -> None:
        tally = self._tally
        tally.count(named.REVIEWS, outcome.resource, outcome.reason.code)
        tally.observe(named.LATENCY, seconds, outcome.status, outcome.resource)
        if outcome.resource == named.POD:
            tally.count(named.PODS, "true" if outcome.status == named.APPLIED else "false")


def _uid_in(body: bytes) -> str:
    """Whose question it was, if that much can be read: an answer without it counts as none."""
    try:
        return msgspec.json.decode(body, type=_UidEnvelope).request.uid
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
