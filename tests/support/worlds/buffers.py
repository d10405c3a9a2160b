"""Buffers, targets and nodes for tests of what Buffers are translated into."""

from __future__ import annotations

from typing import Any

import msgspec

from support.builders.manifests import hvpa, vpa
from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.api.kube.policies import ResourceQuota
from trellis.api.resolve import EffectiveBuffer, resolve_buffer
from trellis.core.buffers import BufferSettings, TargetFacts, Translation, TranslationFacts, translate
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor

Document = dict[str, Any]

# Wednesday 18 November 2026, noon UTC.
NOON = 1_795_003_200.0
SETTINGS = BufferSettings()
POOL = "karpenter.sh/nodepool"


def meaning(document: Document) -> EffectiveBuffer:
    return resolve_buffer(msgspec.convert(document, Buffer))


def app(name: str = "app", *, limits: Document | None = None, **requests: str) -> Document:
    """A container with fields that must not be published."""
    app: Document = {
        "name": name,
        "image": "example/app:1",
        "command": ["run"],
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": requests},
    }
    if limits is not None:
        app["resources"]["limits"] = limits
    return app


def a_spec(*containers: Document, **fields: Any) -> Document:
    return {"containers": list(containers or (app(cpu="500m", memory="1Gi"),)), **fields}


def a_pod(spec: Document | None = None, name: str = "web-1", status: Document | None = None, **metadata: Any) -> Pod:
    labels = {"app": "web", "pod-template-hash": "abc"}
    document = {
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": spec or a_spec(),
        "status": status or {},
    }
    return convert_object(document, Pod)


def a_template(spec: Document | None = None) -> PodTemplateSpec:
    document = {"metadata": {"labels": {"app": "web"}}, "spec": spec or a_spec()}
    return convert_object(document, PodTemplateSpec)


def target_facts(replicas: int | None = 10, spec: Document | None = None, **fields: Any) -> TranslationFacts:
    """A target with a live pod of that spec."""
    return TranslationFacts(TargetFacts(**{"replicas": replicas, "pod": a_pod(spec), **fields}))


def translated(
    document: Document, facts: TranslationFacts | None = None, now: float = NOON, **settings: Any
) -> Translation:
    chosen = BufferSettings(**settings) if settings else SETTINGS
    return translate(meaning(document), facts or TranslationFacts(), now, chosen)


def requests_of(translation: Translation, container: int = 0) -> Document:
    assert translation.pod_spec is not None
    requests: Document = translation.pod_spec["containers"][container]["resources"]["requests"]
    return requests


def a_node(name: str, cpu: str, memory: str = "32Gi", taints: list[Document] | None = None, **labels: str) -> Node:
    document = {
        "metadata": {"name": name, "labels": {key.replace("__", "/"): value for key, value in labels.items()}},
        "spec": {"taints": taints or []},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }
    return convert_object(document, Node)


def a_quota(name: str, hard: Document, used: Document | None = None, **spec: Any) -> ResourceQuota:
    status = {"hard": hard, "used": used or {}}
    return convert_object({"metadata": {"name": name}, "spec": {"hard": hard, **spec}, "status": status}, ResourceQuota)


def a_vpa(target: Document, **spec: Any) -> Governor:
    """A VPA that recommends this for the container `app`."""
    document = {**vpa(**spec), "status": _recommended(target)}
    governor = compile_vpa_governor(msgspec.convert(document, VerticalPodAutoscaler))
    assert governor is not None
    return governor


def an_hvpa(target: Document) -> Governor:
    return compile_hvpa_governor(msgspec.convert({**hvpa(), "status": _recommended(target)}, Hvpa))


def _recommended(target: Document) -> Document:
    return {"recommendation": {"containerRecommendations": [{"containerName": "app", "target": target}]}}
