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
from trellis.core.admission.decisions import NOT_GOVERNED, GovernorIndex, PodAdmitter
from trellis.core.admission.object_validation import OBJECT_NOT_CHECKED, review_object
from trellis.core.admission.pod_patches import PodAdmissionDecision
from trellis.core.admission.reviews import AdmissionRefusal, AdmissionReview, encode_response, read_review
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.owners import TargetRef, build_controller_ref
from trellis.core.recommend.capping import NamespaceLimits
from trellis.runtime.telemetry.logs import Logger

ADMISSION_NOT_READY = Reason(
    "AdmissionNotReady",
    "A new pod was admitted unchanged, because the caches of the admission controller had not synced.",
    Severity.WARNING,
)

_NOT_READY: Final = PodAdmissionDecision(ADMISSION_NOT_READY, warnings=(ADMISSION_NOT_READY.meaning,))


class PodDecisions:
    """Decides about new pods from the caches; before it `is_ready` pods are admitted unchanged."""

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
        self.admitter = PodAdmitter(governors, limits, boost, ceiling)
        self._is_ready = is_ready

    def decide(self, pod: Pod, namespace: str) -> PodAdmissionDecision | Awaitable[PodAdmissionDecision]:
        """Return the decision, or an awaitable if the pod's controller has to be fetched."""
        if not self._is_ready():
            return _NOT_READY
        # Most namespaces have no VPA or Hvpa, and then the controller does not matter.
        if not self._governors.governs_namespace(namespace):
            return NOT_GOVERNED
        controller = build_controller_ref(namespace, pod.metadata.controller)
        if controller is None:
            return NOT_GOVERNED
        owners = self._lookups.owners
        chain = owners.follow(controller)
        if chain.topmost is None and self._lookups.can_be_completed(controller):
            return self._decide_later(pod, controller)
        return self.admitter.decide(pod, namespace, chain, owners)

    async def _decide_later(self, pod: Pod, controller: TargetRef) -> PodAdmissionDecision:
        chain = await self._lookups.resolve(controller)
        return self.admitter.decide(pod, controller.namespace, chain, self._lookups.owners)


REVIEW_UNREADABLE = Reason(
    "ReviewUnreadable", "A request to the webhook is not a valid AdmissionReview.", Severity.WARNING
)
POD_UNREADABLE = Reason("PodUnreadable", "A new pod could not be decoded and was admitted unchanged.", Severity.WARNING)
ADMISSION_FAILED = Reason(
    "AdmissionFailed", "An internal error left an object unchanged: please report it.", Severity.ERROR
)

_JSON: Final = "application/json"
_CREATE: Final = "CREATE"
_OWN_KINDS: Final = {
    (VPA_KIND.group, VPA_KIND.name): named.VPA,
    (HVPA.group, HVPA.name): HVPA.name,
    (BUFFER.group, BUFFER.name): BUFFER.name,
}

_log: Final = Logger("trellis.admission")


class PodReviewer(Protocol):
    """Decides about new pods."""

    def decide(self, pod: Pod, namespace: str) -> PodAdmissionDecision | Awaitable[PodAdmissionDecision]:
        """Return the decision about a new pod, or an awaitable of it."""


class ReviewObserver(Protocol):
    """Observes the results of reviews."""

    def __call__(self, resource: str, reason: Reason, outcome: str, operations: int, /) -> None:
        """A review ended with this reason and outcome, and so many operations on the object."""


class _ReviewResult(msgspec.Struct, frozen=True):
    """The result of a review, with all that the answer needs."""

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
    """Answers requests. It never raises. `observe` is called with each result, if it is there."""

    def __init__(
        self, pods: PodReviewer, gates: FeatureGates, metrics: ReviewMetrics, observe: ReviewObserver | None = None
    ) -> None:
        self._pods = pods
        self._gates = gates
        self._metrics = metrics
        self._observe = observe

    def handle(self, request: HttpRequest) -> HttpReply | Awaitable[HttpReply]:
        """Return the reply to a request, or an awaitable of it."""
        if request.method != "POST":
            return self.refuse(BadRequest(405, "a review must be sent with POST"))
        media_type = request.content_type
        if media_type != _JSON and media_type.partition(";")[0].strip().lower() != _JSON:
            return self._admit_unread(request.body, f"a review must be {_JSON}, not {media_type or 'nothing'}")
        return self.review(request.body)

    def refuse(self, error: BadRequest) -> HttpReply:
        """Return the reply to a bad request: an error status, and a body that admits the object all the same."""
        self._metrics.count(named.REFUSED, str(error.status))
        return HttpReply(error.status, encode_response("", warnings=(error.message,)))

    def review(self, body: bytes) -> HttpReply | Awaitable[HttpReply]:
        """Return the reply to a review, or an awaitable of it."""
        began = perf_counter()
        uid = ""
        try:
            review = read_review(body)
            uid = review.uid
            result = self._decide(review)
            if isinstance(result, _ReviewResult):
                return self._reply(uid, result, began)
        except InvalidReview as error:
            return self._admit_unread(body, str(error))
        except Exception as error:  # noqa: BLE001 - no bug of ours may hold up a pod
            return self._failed(uid or _read_uid(body), error, began)
        return self._await_result(review, result, began)

    async def _await_result(
        self, review: AdmissionReview, pending: Awaitable[_ReviewResult], began: float
    ) -> HttpReply:
        try:
            return self._reply(review.uid, await pending, began)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(review.uid, error, began)

    def _decide(self, review: AdmissionReview) -> _ReviewResult | Awaitable[_ReviewResult]:
        kind = review.kind
        if kind.kind == named.POD and not kind.group:
            return self._decide_pod(review)
        resource = _OWN_KINDS.get((kind.group, kind.kind))
        if resource is None:
            return _ReviewResult(named.UNKNOWN, OBJECT_NOT_CHECKED, named.ERROR)
        decision = review_object(review, self._gates)
        # Upstream counts a refusal as skipped, and so what it let through as it came.
        status = named.APPLIED if decision.patch else named.SKIPPED
        return _ReviewResult(resource, decision.reason, status, decision.patch, decision.warnings, decision.refusal)

    def _decide_pod(self, review: AdmissionReview) -> _ReviewResult | Awaitable[_ReviewResult]:
        if review.operation != _CREATE or review.sub_resource or review.kind.version != "v1" or not review.has_object:
            return _ReviewResult(named.POD, OBJECT_NOT_CHECKED)
        try:
            pod = decode_object(review.object, Pod)
        except UnreadableObject as error:
            return _ReviewResult(named.POD, POD_UNREADABLE, named.ERROR, warnings=(str(error),))
        decision = self._pods.decide(pod, review.namespace)
        if isinstance(decision, PodAdmissionDecision):
            return self._build_result(review, pod, decision)
        return self._await_decision(review, pod, decision)

    async def _await_decision(
        self, review: AdmissionReview, pod: Pod, pending: Awaitable[PodAdmissionDecision]
    ) -> _ReviewResult:
        return self._build_result(review, pod, await pending)

    def _build_result(self, review: AdmissionReview, pod: Pod, decision: PodAdmissionDecision) -> _ReviewResult:
        # At verbosity 5, because a log line takes as long as all the rest of a review.
        _log.detail(
            5,
            "reviewed a pod",
            namespace=review.namespace,
            pod=pod.metadata.name or f"{pod.metadata.generate_name}%",
            reason=decision.reason,
            operations=len(decision.patch),
        )
        status = named.APPLIED if decision.patch else named.SKIPPED
        return _ReviewResult(named.POD, decision.reason, status, decision.patch, decision.warnings)

    def _reply(self, uid: str, result: _ReviewResult, began: float) -> HttpReply:
        decided = perf_counter()
        body = encode_response(uid, patch=result.patch, warnings=result.warnings, refusal=result.refusal)
        built = perf_counter()
        metrics = self._metrics
        metrics.observe_review(began, decided, built)
        self._count(result, built - began)
        return HttpReply(200, body)

    def _failed(self, uid: str, error: Exception, began: float) -> HttpReply:
        _log.error("a review failed; the object is admitted unchanged", error=error, uid=uid)
        self._metrics.count(named.FAILURES)
        self._count(_ReviewResult(named.UNKNOWN, ADMISSION_FAILED, named.ERROR), perf_counter() - began)
        return HttpReply(200, encode_response(uid, warnings=(f"{ADMISSION_FAILED.meaning} ({type(error).__name__})",)))

    def _admit_unread(self, body: bytes, message: str) -> HttpReply:
        _log.warning("a request is not a valid AdmissionReview", why=message)
        self._count(_ReviewResult(named.UNKNOWN, REVIEW_UNREADABLE, named.ERROR), 0.0)
        return HttpReply(200, encode_response(_read_uid(body), warnings=(message,)))

    def _count(self, result: _ReviewResult, seconds: float) -> None:
        metrics = self._metrics
        metrics.count(named.REVIEWS, result.resource, result.reason.code)
        metrics.observe(named.LATENCY, seconds, result.status, result.resource)
        if self._observe is not None:
            self._observe(result.resource, result.reason, result.status, len(result.patch))
        if result.resource == named.POD:
            metrics.count(named.PODS, "true" if result.status == named.APPLIED else "false")


def _read_uid(body: bytes) -> str:
    """Read the UID of a review, if that much can be read: the API server rejects an answer without it."""
    try:
        return msgspec.json.decode(body, type=_UidEnvelope).request.uid
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
