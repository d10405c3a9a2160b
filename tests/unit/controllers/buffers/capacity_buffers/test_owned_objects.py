"""Whether a stored PodTemplate holds a chunk, whatever the API server has made of its spelling."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.builders.manifests import replica_buffer
from support.worlds.buffers import Document, a_spec, app, target_facts, translated
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodTemplate
from trellis.controllers.buffers.capacity_buffers.owned_objects import template_matches
from trellis.core.buffers import build_pod_template

SPEC = a_spec(
    app(cpu="0.5", memory="1024Mi"),
    initContainers=[{**app("side", cpu="100m"), "restartPolicy": "Always"}],
    nodeSelector={"disk": "1"},
    tolerations=[{"key": "spot", "operator": "Exists"}],
    priority=7,
    priorityClassName="high",
)


def expected_template(spec: Document = SPEC) -> Document:
    template: Document = build_pod_template("t", translated(replica_buffer(exactly=1), target_facts(spec=spec)))[
        "template"
    ]
    return template


def stored(template: Document) -> Document:
    """What the API server keeps of it: amounts in its own spelling, and what it fills in."""
    new = copy.deepcopy(template)
    for container in (*new["spec"]["containers"], *new["spec"]["initContainers"]):
        requests = container["resources"]["requests"]
        container["resources"]["requests"] = {name: _SPELLED.get(text, text) for name, text in requests.items()}
        container |= {"terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "Always"}
    new["spec"] |= {"schedulerName": "default-scheduler", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
    return new


_SPELLED = {"0.5": "500m", "1024Mi": "1Gi"}


def held(template: Document, by: Document) -> bool:
    return template_matches(convert_object({"template": by}, PodTemplate).template, template)


def test_defaults_of_the_api_server_are_no_difference() -> None:
    assert stored(expected_template()) != expected_template()
    assert held(expected_template(), by=stored(expected_template()))


@pytest.mark.parametrize(
    "change",
    [
        {"nodeSelector": {"disk": "1.0"}},
        {"nodeSelector": {}},
        {"tolerations": []},
        {"priorityClassName": "low"},
        {"schedulerName": "other"},
        {"hostNetwork": True},
        {"containers": [{"name": "app", "resources": {"requests": {"cpu": "501m", "memory": "1Gi"}}}]},
        {"initContainers": []},
        {"overhead": {"cpu": "1m"}},
    ],
)
def test_a_difference_in_scheduling_fields_counts(change: dict[str, Any]) -> None:
    template = stored(expected_template())
    template["spec"] |= change
    assert not held(expected_template(), by=template)


def test_a_difference_in_labels_counts() -> None:
    template = stored(expected_template())
    template["metadata"]["labels"] = {"app": "other"}
    assert not held(expected_template(), by=template)
