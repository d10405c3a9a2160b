"""What this API server is and which kinds it serves, as values. `discovery` finds it out."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.kube.resources import Resource


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
        """For asking about a kind that is known by discovery alone: its metadata."""
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
        """Whether exactly this resource, in its version, is there."""
        found = self.find(resource.group, resource.kind, resource.version)
        return found is not None and found.plural == resource.plural


def _leading_number(text: str) -> int:
    found = re.match("[0-9]+", text)
    return int(found[0]) if found else 0
