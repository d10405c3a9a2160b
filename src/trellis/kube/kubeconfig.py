"""Which cluster is meant, by a kubeconfig: a context in, a `Connection` out.

What is wrong is said in one line with the file and what to do, because this is the first thing that fails for a new
user. `kubeconfig_files` says which files there are, `kubeconfig_login` what a user's entry means.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from trellis.base.errors import BadKubeconfig, InvalidInput, named, shown
from trellis.base.names import nearest
from trellis.kube.connection import Connection, Impersonation
from trellis.kube.kubeconfig_entries import Cluster, Entry, User
from trellis.kube.kubeconfig_files import Config, Found, load, usual_files
from trellis.kube.kubeconfig_login import login_of, warnings_about
from trellis.kube.proxies import checked_proxy

E = TypeVar("E", bound=Entry)


def connection_from_kubeconfig(
    environment: Mapping[str, str], *, file: Path | None = None, context: str = "", home: Path | None = None
) -> Connection:
    """The connection of a context, or of the current one; from a file, or from the usual places."""
    files = (file,) if file else usual_files(environment, home or Path.home())
    config = load(files, must_exist=file is not None)
    name = context or config.current_context
    if not name:
        choices = ", ".join(sorted(config.contexts)) or "none is defined"
        raise _refuse(config, f"there is no current-context; choose one with --context: {choices}")
    chosen = _find(config, "context", name, config.contexts)
    cluster = _find(config, "cluster", chosen.entry.cluster, config.clusters, name)
    # kubectl too takes a context without a user for an anonymous one.
    user = Found(chosen.file, "user", "", User())
    if chosen.entry.user:
        user = _find(config, "user", chosen.entry.user, config.users, name)
    who = user.entry
    return Connection(
        server=_server(cluster),
        source=f"{chosen.file}, context {named(name)}",
        namespace=chosen.entry.namespace or "default",
        authority=_authority(cluster),
        insecure=cluster.entry.insecure_skip_tls_verify,
        tls_server_name=cluster.entry.tls_server_name,
        proxy=_proxy(cluster),
        login=login_of(user, cluster.entry, _authority(cluster)),
        impersonation=Impersonation(who.act_as, who.as_uid, who.as_groups, who.as_user_extra),
        warnings=(*_warnings(cluster), *warnings_about(user)),
    )


def _find(
    config: Config, kind: str, name: str, entries: Mapping[str, Found[E]], context: str | None = None
) -> Found[E]:
    found = entries.get(name)
    if found:
        return found
    meant = nearest(name, entries)
    if meant:
        advice = f"did you mean {named(meant)}?"
    else:
        advice = f"there are: {', '.join(map(named, sorted(entries)))}" if entries else "none is defined"
    whose = f", which context {named(context)} names" if context else ""
    raise _refuse(config, f"there is no {kind} {named(name)}{whose}; {advice}")


def _refuse(config: Config, rule: str) -> BadKubeconfig:
    return BadKubeconfig(os.pathsep.join(map(str, config.files)), rule)


def _server(cluster: Found[Cluster]) -> str:
    server = cluster.entry.server
    # kubectl would take an empty one for localhost:8080, where nothing has listened for years.
    if not server:
        raise cluster.refuse("it has no server; set it to the API server's URL")
    url = urlsplit(server if "://" in server else f"https://{server}")
    try:
        valid = url.scheme in ("http", "https") and url.hostname and (url.port is None or url.port > 0)
    except ValueError:  # a port that is no number
        valid = False
    if not valid:
        raise cluster.refuse(f"server {shown(server)} is not a URL such as https://10.0.0.1:6443")
    return url.geturl().rstrip("/")


def _authority(cluster: Found[Cluster]) -> bytes | None:
    entry = cluster.entry
    if entry.insecure_skip_tls_verify and (entry.certificate_authority or entry.certificate_authority_data):
        raise cluster.refuse("it has a certificate authority and insecure-skip-tls-verify; remove the latter")
    found = cluster.content("certificate-authority", entry.certificate_authority, entry.certificate_authority_data)
    return found or None


def _proxy(cluster: Found[Cluster]) -> str:
    if not cluster.entry.proxy_url:
        return ""
    try:
        return checked_proxy(cluster.entry.proxy_url, "proxy-url")
    except InvalidInput as error:
        raise cluster.refuse(f"{shown(error.value)}: {error.rule}") from error


def _warnings(cluster: Found[Cluster]) -> tuple[str, ...]:
    if not cluster.entry.insecure_skip_tls_verify:
        return ()
    return (
        f"cluster {named(cluster.name)} of {cluster.file} has insecure-skip-tls-verify: "
        "whoever is between us and the server can read and change everything.",
    )
