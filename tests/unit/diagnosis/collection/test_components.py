"""Deployments and Leases of components, and errors in their logs."""

from __future__ import annotations

import pytest

from support.api_server.server import ModelServer
from support.virtual_time import run
from trellis.diagnosis.collection.components import collect_installation, find_error_line
from trellis.diagnosis.collection.reader import FactReader
from trellis.install.installation import NAMESPACES as PRESET_NAMESPACES
from trellis.kube.transport.requests import Request
from trellis.sources.cluster.components import NAMESPACES
from trellis.testing.scripted_transport import ScriptedResponse, error_response


def test_components_are_looked_for_where_presets_install_them() -> None:
    assert set(NAMESPACES) == set(PRESET_NAMESPACES.values())


def test_rights_in_the_namespace_of_a_preset_are_enough() -> None:
    server = ModelServer()
    container = {"name": "trellis", "image": "trellis:0.1.0", "command": ["trellis", "run"]}
    spec = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    server.put("/apis/apps/v1/namespaces/trellis-system/deployments/trellis", {"spec": spec})
    server.put(
        "/apis/coordination.k8s.io/v1/namespaces/trellis-system/leases/trellis-hvpa",
        {"spec": {"holderIdentity": "x_1"}},
    )

    def refuse(request: Request) -> ScriptedResponse | None:
        if request.method == "GET" and "/namespaces/trellis-system/" not in request.path:
            return error_response(403, "Forbidden", "cannot list")
        return None

    server.before = refuse
    installation = run(collect_installation(FactReader(server.client), ""))
    assert [workload.label for workload in installation.workloads] == ["trellis-system/trellis"]
    assert [lease.holder for lease in installation.leases] == ["x_1"]
    assert [unread.what for unread in installation.unread] == ["Deployments in all namespaces"]
    assert installation.has_known_leases


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("started\ntrellis: 5: must be above 0\nstopping\n", "trellis: 5: must be above 0"),
        ("first error\nlast error: no such host\nbye\n", "last error: no such host"),
        ("one\ntwo\n\n", "two"),
        ("", ""),
        ("error: cannot reach https://bob:hunter2@prom\n", "error: cannot reach https://bob:(hidden)@prom"),
    ],
)
def test_the_last_line_that_looks_like_an_error_is_shown(log: str, line: str) -> None:
    assert find_error_line(log) == line


def test_a_long_line_is_cut() -> None:
    assert len(find_error_line(f"error: {'x' * 1000}")) == 300
