"""Discovery: the version of the API server and the kinds it serves.

Aggregated discovery (`apidiscovery.k8s.io/v2`, Kubernetes 1.30) takes two requests. A server or a proxy without it
answers with the old lists of groups instead, and then each group version is requested by itself.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import Slice
from trellis.base.errors import NotFound, ServerFault
from trellis.kube.resources import Resource
from trellis.kube.transport.requests import JSON, Request, build_raw_get
from trellis.kube.transport.responses import Response


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """`/version`. Providers write things like `33+` where the minor version stands."""

    major: str = ""
    minor: str = ""
    git_version: str = ""

    @property
    def number(self) -> tuple[int, int]:
        """Major and minor, to compare; zeros if they are no numbers, as in a build without a version."""
        return _leading_number(self.major), _leading_number(self.minor)


class ServedKind(msgspec.Struct, frozen=True):
    """One kind in one version. `subresources` are names such as `scale`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def resource(self) -> Resource[KubeObject]:
        """The resource of a kind that is known by discovery alone, read as metadata."""
        return Resource(self.group, self.version, self.plural, self.kind, self.namespaced, KubeObject).as_metadata()


class Served(msgspec.Struct, frozen=True):
    """Every kind, a group's preferred version first.

    `stale` has the group versions whose own server (metrics.k8s.io has one) does not answer: their kinds may be
    missing or out of date, so that absence proves nothing.
    """

    kinds: tuple[ServedKind, ...] = ()
    stale: tuple[str, ...] = ()

    def find(self, group: str, kind: str, version: str = "") -> ServedKind | None:
        """A kind by its name, in the version given or else in the preferred one."""
        return next((k for k in self.kinds if k.group == group and k.kind == kind and version in ("", k.version)), None)

    @property
    def resizes_pods(self) -> bool:
        """Whether pods can be resized in place; servers before Kubernetes 1.33 cannot."""
        pods = self.find("", "Pod", "v1")
        return pods is not None and "resize" in pods.subresources

    def serves(self, resource: Resource[Any]) -> bool:
        """Whether exactly this resource, in its version, is served."""
        served = self.find(resource.group, resource.kind, resource.version)
        return served is not None and served.plural == resource.plural


def _leading_number(text: str) -> int:
    digits = re.match("[0-9]+", text)
    return int(digits[0]) if digits else 0


_AGGREGATED: Final = f"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON}"

Send = Callable[[Request], Awaitable[Response]]


async def discover(send: Send) -> Served:
    """Read all kinds that the API server serves."""
    kinds: list[ServedKind] = []
    stale: list[str] = []
    for path in ("/api", "/apis"):
        response = await send(build_raw_get(path, _AGGREGATED))
        if "apidiscovery.k8s.io" in response.headers.get("content-type", ""):
            discovered = read_aggregated(response.body)
        else:
            discovered = await _discover_each_version(send, group_versions(response.body))
        kinds += discovered.kinds
        stale += discovered.stale
    return Served(tuple(kinds), tuple(stale))


class _Subresource(Slice, frozen=True):
    subresource: str = ""


class _GroupVersionKind(Slice, frozen=True):
    kind: str = ""


class _AggregatedResource(Slice, frozen=True):
    resource: str = ""
    response_kind: _GroupVersionKind | None = None
    scope: str = ""
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[_Subresource, ...] = ()


class _AggregatedVersion(Slice, frozen=True):
    version: str = ""
    resources: tuple[_AggregatedResource, ...] = ()
    freshness: str = ""


class _GroupName(Slice, frozen=True):
    name: str = ""


class _AggregatedGroup(Slice, frozen=True):
    metadata: _GroupName = _GroupName()
    versions: tuple[_AggregatedVersion, ...] = ()


class _AggregatedList(Slice, frozen=True):
    items: tuple[_AggregatedGroup, ...] = ()


def read_aggregated(body: bytes) -> Served:
    """An `APIGroupDiscoveryList`. A kind without a name is a subresource whose parent is not served."""
    groups = decode_object(body, _AggregatedList).items
    kinds = [
        ServedKind(
            group.metadata.name,
            version.version,
            entry.resource,
            entry.response_kind.kind,
            entry.scope == "Namespaced",
            entry.verbs,
            entry.short_names,
            tuple(subresource.subresource for subresource in entry.subresources),
        )
        for group in groups
        for version in group.versions
        for entry in version.resources
        if entry.response_kind and entry.response_kind.kind
    ]
    stale = [
        _group_version(group.metadata.name, version.version)
        for group in groups
        for version in group.versions
        if version.freshness == "Stale"
    ]
    return Served(tuple(kinds), tuple(stale))


class _GroupVersion(Slice, frozen=True):
    group_version: str = ""
    version: str = ""


class _Group(Slice, frozen=True):
    versions: tuple[_GroupVersion, ...] = ()
    preferred_version: _GroupVersion = _GroupVersion()


class _Groups(Slice, frozen=True):
    """APIGroupList has `groups`; APIVersions, of the group without a name, has `versions`."""

    groups: tuple[_Group, ...] = ()
    versions: tuple[str, ...] = ()


def group_versions(body: bytes) -> tuple[str, ...]:
    """Every group version of the old kind of list, a group's preferred one first."""
    listed = decode_object(body, _Groups)
    ranked = [
        version.group_version
        for group in listed.groups
        for version in sorted(group.versions, key=lambda v: v.version != group.preferred_version.version)
    ]
    return (*listed.versions, *ranked)


class _ApiResource(Slice, frozen=True):
    name: str = ""
    namespaced: bool = False
    kind: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()


class _ApiResources(Slice, frozen=True):
    resources: tuple[_ApiResource, ...] = ()


def read_resources(body: bytes, group_version: str) -> tuple[ServedKind, ...]:
    """An `APIResourceList`, in which subresources stand beside their kinds as `deployments/scale`."""
    group, _, version = group_version.rpartition("/")
    entries = decode_object(body, _ApiResources).resources
    under: dict[str, list[str]] = {}
    for entry in entries:
        plural, _, subresource = entry.name.partition("/")
        under.setdefault(plural, []).extend([subresource] if subresource else [])
    return tuple(
        ServedKind(group, version, r.name, r.kind, r.namespaced, r.verbs, r.short_names, tuple(under[r.name]))
        for r in entries
        if "/" not in r.name
    )


async def _discover_each_version(send: Send, versions: Iterable[str]) -> Served:
    kinds: list[ServedKind] = []
    stale: list[str] = []
    for group_version in versions:
        try:
            response = await send(
                build_raw_get(f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}")
            )
        except (NotFound, ServerFault):
            # A group whose server is down (503) must not hide the others.
            stale.append(group_version)
        else:
            kinds += read_resources(response.body, group_version)
    return Served(tuple(kinds), tuple(stale))


def _group_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version
