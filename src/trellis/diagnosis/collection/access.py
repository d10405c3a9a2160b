"""Collects rights by asking the API server to review them: those of the user, and those of the accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from trellis.base.errors import KubeError, Unreachable, UnreadableObject
from trellis.diagnosis.checks.access import (
    AccessFacts,
    AccountAccess,
    MissingRight,
    Right,
    drop_switched_off,
    list_account_rights,
    list_install_rights,
)
from trellis.diagnosis.collection.reader import FactReader
from trellis.diagnosis.installation import ComponentWorkload, Installation
from trellis.diagnosis.unread import Unread, build_unread
from trellis.install.permissions import rights_of
from trellis.kube.auth.reviews import ACCESS_REVIEWS, AccessReview
from trellis.kube.resources import Resource

_SELF_REVIEWS: Final = Resource(
    ACCESS_REVIEWS.group, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, AccessReview
)
# Reviews at a time; a component has some fifty rights.
_TOGETHER: Final = 16


async def collect_access(reader: FactReader, installation: Installation, namespace: str) -> AccessFacts:
    """What the user lacks for an installation, and what the accounts of components of Trellis lack."""
    limit = asyncio.Semaphore(_TOGETHER)
    accounts = [
        await _review_account(reader, workload, component, limit)
        for workload in installation.workloads
        if workload.is_ours
        for component in workload.components
    ]
    return AccessFacts(await _review_user(reader, namespace, limit), tuple(accounts))


async def _review_user(reader: FactReader, namespace: str, limit: asyncio.Semaphore) -> tuple[Right, ...] | Unread:
    rights = list_install_rights(namespace)
    try:
        allowed = await asyncio.gather(*(_review(reader, right, "", limit) for right in rights))
    except Unreachable:
        raise
    except (KubeError, UnreadableObject) as error:
        return build_unread(error, "your rights", verb="create", resource=_SELF_REVIEWS.full_name)
    return tuple(right for right, is_allowed in zip(rights, allowed, strict=True) if not is_allowed)


async def _review_account(
    reader: FactReader, workload: ComponentWorkload, component: str, limit: asyncio.Semaphore
) -> AccountAccess:
    user = f"system:serviceaccount:{workload.namespace}:{workload.account}"
    watched = [name for name in workload.find_flag("vpa-object-namespace", component).split(",") if name]
    read_only = workload.find_flag("read-only", component) == "true"
    rights = list_account_rights(rights_of(component), workload.namespace, watched, read_only=read_only)
    missing: tuple[MissingRight, ...] | Unread
    try:
        missing = await _find_missing(reader, rights, user, limit)
    except Unreachable:
        raise
    except (KubeError, UnreadableObject) as error:
        what = f"rights of {workload.namespace}/{workload.account}"
        missing = build_unread(error, what, verb="create", resource=ACCESS_REVIEWS.full_name)
    return AccountAccess(component, f"{workload.namespace}/{workload.account}", missing)


async def _find_missing(
    reader: FactReader, rights: Iterable[MissingRight], user: str, limit: asyncio.Semaphore
) -> tuple[MissingRight, ...]:
    unique = list(dict.fromkeys(rights))
    allowed = await asyncio.gather(*(_review(reader, item.right, user, limit) for item in unique))
    missing = [item for item, is_allowed in zip(unique, allowed, strict=True) if not is_allowed]
    return drop_switched_off(unique, missing)


async def _review(reader: FactReader, right: Right, user: str, limit: asyncio.Semaphore) -> bool:
    plural, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": plural,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    resource = ACCESS_REVIEWS if user else _SELF_REVIEWS
    spec: dict[str, Any] = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    if user:
        namespace = user.split(":")[2]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        spec |= {"user": user, "groups": groups}
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
    async with limit:
        return (await reader.client.create(resource, document)).status.allowed
