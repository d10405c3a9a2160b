"""A dump that names nothing still says why an Hvpa has its count."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from explained_world import COMPONENTS, NAMESPACE, Cluster, search
from trellis.core.explain import Components, Explained, evidence_of, explain_hvpa
from trellis.core.explain.hvpa_parts import HvpaPart
from trellis.core.model.collected import Collected
from trellis.core.model.dump_lines import OBJECT
from trellis.core.model.recording import encode_line, read_lines
from trellis.sources.cluster.masking import Mask

NAMES = ("search", "app", "proxy", "shop", "team", "owner")


def masked(cluster: Cluster, mask: Mask) -> list[bytes]:
    """The lines of a dump, of which the objects are masked."""
    lines = cluster.lines()
    return [
        encode_line(OBJECT, mask.document(msgspec.json.decode(data))) if kind == OBJECT else line
        for line, (kind, data) in zip(lines, read_lines(lines), strict=True)
    ]


def template(**spec: Any) -> dict[str, Any]:
    return {"deploy": True, "template": {"spec": spec}}


def told(explained: Explained) -> HvpaPart:
    assert explained.hvpa is not None
    return explained.hvpa


def test_the_decision_is_the_same_without_names() -> None:
    cluster, mask = search(), Mask(b"0")
    components = Components(seen=COMPONENTS)
    plain = told(explain_hvpa(cluster.evidence(), "search"))
    found = evidence_of(Collected.of(masked(cluster, mask)), mask.namespace(NAMESPACE), components)
    part = told(explain_hvpa(found, mask.name("search")))
    assert (part.verdict, part.count, part.size) == (plain.verdict, plain.count, plain.size)
    assert (part.demands, part.turns, part.rungs) == (plain.demands, plain.turns, plain.rungs)
    assert part.hpa is not None
    assert part.vpa is not None
    assert (part.hpa.owned, part.vpa.owned, part.hpa.totals) == (True, True, {"cpu": "24"})


def test_no_name_is_left_in_an_hvpa_and_its_templates() -> None:
    cluster = search()
    document = cluster.objects["Hvpa", (NAMESPACE, "search")]
    metric = {"type": "External", "external": {"metric": {"name": "team/orders"}, "target": {"type": "Value"}}}
    contained = {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app"}}
    document["spec"]["hpa"] = template(metrics=[metric, contained])
    policy = {"containerPolicies": [{"containerName": "proxy", "mode": "Off"}]}
    document["spec"]["vpa"] = template(resourcePolicy=policy)
    document["metadata"]["labels"] = {"team.example/owner": "team"}
    document["status"]["selector"] = "app=search"
    shown = msgspec.json.encode(Mask(b"0").document(document)).decode()
    for word in NAMES:
        assert not re.search(rf'"[^"]*\b{word}\b[^"]*"(?!:)', shown.replace("app=", "")), (word, shown)
    kept = Mask(b"0").document(document)["spec"]
    assert (kept["buckets"], kept["hpa"]["deploy"]) == (document["spec"]["buckets"], True)
