"""What stands in the kubeconfig files: which files they are, how each is read, and how several become one.

The rules are kubectl's: a file given by name must exist; else `KUBECONFIG` lists files, of which missing ones are
skipped; else it is `~/.kube/config`. The first file to name a cluster, user or context wins, with the whole entry.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from trellis.api.kube.lenient import convert_leniently
from trellis.base.documents import BrokenDocument, read_documents
from trellis.base.errors import BadKubeconfig, named
from trellis.kube.kubeconfig_entries import Cluster, Context, Entry, File, User

E = TypeVar("E", bound=Entry)


class Found(msgspec.Struct, Generic[E], frozen=True):
    """An entry and where it stands: paths in it are relative to its file, and messages name both."""

    file: Path
    kind: str
    name: str
    entry: E

    def refuse(self, rule: str) -> BadKubeconfig:
        """The error to raise about this entry."""
        return BadKubeconfig(str(self.file), f"{self.kind} {named(self.name)}: {rule}")

    def path(self, text: str) -> Path:
        """A path as the file means it."""
        return self.file.absolute().parent / text

    def content(self, field: str, path: str, data: str) -> bytes:
        """What a pair of fields gives: base64 in the file itself, which wins, or the name of another file."""
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise self.refuse(f"{field}-data is not base64: {error}") from error
        if not path:
            return b""
        try:
            return self.path(path).read_bytes()
        except OSError as error:
            raise self.refuse(f"{field} {self.path(path)} cannot be read: {error.strerror}") from error


class Config(msgspec.Struct, frozen=True):
    """All files as one."""

    files: tuple[Path, ...]
    current_context: str
    clusters: Mapping[str, Found[Cluster]]
    users: Mapping[str, Found[User]]
    contexts: Mapping[str, Found[Context]]


def load(files: Sequence[Path], *, must_exist: bool) -> Config:
    """Read and merge. With `must_exist` a missing file is an error; otherwise it is one only if all are missing."""
    read = [(file, _read(file)) for file in files if must_exist or file.exists()]
    if not read:
        named = os.pathsep.join(map(str, files))
        raise BadKubeconfig(named, "no such file; name one with --kubeconfig or KUBECONFIG")
    return Config(
        files=tuple(file for file, _ in read),
        current_context=next((found.current_context for _, found in read if found.current_context), ""),
        clusters=_merged([Found(file, "cluster", c.name, c.cluster) for file, found in read for c in found.clusters]),
        users=_merged([Found(file, "user", u.name, u.user) for file, found in read for u in found.users]),
        contexts=_merged([Found(file, "context", c.name, c.context) for file, found in read for c in found.contexts]),
    )


def usual_files(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """The files that `KUBECONFIG` lists, or the one in the home directory."""
    listed = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    return tuple(dict.fromkeys(listed)) or (home / ".kube" / "config",)


def _read(file: Path) -> File:
    try:
        text = file.read_bytes()
    except FileNotFoundError as error:
        raise BadKubeconfig(str(file), "no such file; name another with --kubeconfig or KUBECONFIG") from error
    except OSError as error:
        raise BadKubeconfig(str(file), f"cannot be read: {error.strerror}; check its permissions") from error
    documents = read_documents(text)
    if not documents:
        return File()
    document = documents[0]
    if isinstance(document, BrokenDocument):
        problem = document.errors[0]
        rule = f"line {problem.line}, column {problem.column}: {problem}; this is not YAML"
        raise BadKubeconfig(str(file), rule) from problem
    if not isinstance(document.value, dict):
        raise BadKubeconfig(str(file), "not a kubeconfig; it should begin with `apiVersion: v1` and `kind: Config`")
    try:
        return convert_leniently(document.value, File)
    except msgspec.ValidationError as error:
        rule = f"not a kubeconfig: {str(error).replace(' - at `$.', ' at `')}"
        raise BadKubeconfig(str(file), rule) from error


def _merged(entries: Sequence[Found[E]]) -> Mapping[str, Found[E]]:
    merged: dict[str, Found[E]] = {}
    for found in entries:
        first = merged.setdefault(found.name, found)
        if first is not found and first.file == found.file:
            raise found.refuse("the name is there twice; remove one of them")
    return merged
