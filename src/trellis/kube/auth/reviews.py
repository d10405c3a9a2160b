"""Asks the API server who holds a bearer token, and whether that user may request a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import Slice
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.transport.requests import build_create
from trellis.kube.transport.responses import read_as


class ReviewedUser(Slice, frozen=True):
    """A user as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class TokenReviewStatus(Slice, frozen=True):
    """Whether a token is valid, and of whom."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()


class TokenReview(Slice, frozen=True):
    """The answer about a token."""

    status: TokenReviewStatus = TokenReviewStatus()


class AccessReviewStatus(Slice, frozen=True):
    """Whether a user may do something, and why."""

    allowed: bool = False
    reason: str = ""


class AccessReview(KubeObject, frozen=True):
    """A SelfSubjectAccessReview or SubjectAccessReview."""

    status: AccessReviewStatus = AccessReviewStatus()


TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, TokenReview)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, AccessReview
)


async def review_token(client: Client, token: str) -> ReviewedUser | None:
    """The user of a token, None if it is not valid; raises `KubeError`."""
    document = _build(TOKEN_REVIEWS, {"token": token})
    review = read_as(await client.send(build_create(TOKEN_REVIEWS, document)), TokenReview)
    return review.status.user if review.status.authenticated else None


async def may_get(client: Client, user: ReviewedUser, path: str) -> bool:
    """Whether RBAC allows a user to get a path that is no resource; raises `KubeError`."""
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra.items()},
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }
    document = _build(ACCESS_REVIEWS, spec)
    return read_as(await client.send(build_create(ACCESS_REVIEWS, document)), AccessReview).status.allowed


def _build(resource: Resource[Any], spec: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
