"""An anonymized dump explains the replicas of an Hvpa."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from support.builders.collected_clusters import COMPONENTS, NAMESPACE, Cluster, search
from trellis.base.json_lines import encode_line, read_lines
from trellis.core.cluster.dump_format import OBJECT
from trellis.core.cluster.state import ClusterState
from trellis.core.explain import CollectedSettings, ObjectExplanation, build_evidence, explain_hvpa
from trellis.core.explain.explanation.hvpa import HvpaPart
from trellis.sources.cluster.anonymization import Anonymizer

NAMES = ("search", "app", "proxy", "shop", "team", "owner")


def masked(cluster: Cluster, mask: Anonymizer) -> list[bytes]:
    """The lines of a dump, of which the objects are masked."""
    lines = cluster.lines()
    return [
        encode_line(OBJECT, mask.anonymize(msgspec.json.decode(data))) if kind == OBJECT else line
        for line, (kind, data) in zip(lines, read_lines(lines), strict=True)
    ]


def template(**spec: Any) -> dict[str, Any]:
    return {"deploy": True, "template": {"spec": spec}}


def hvpa_part(explained: ObjectExplanation) -> HvpaPart:
    assert explained.hvpa is not None
    return explained.hvpa


def test_an_anonymized_dump_gives_the_same_decision() -> None:
    cluster, mask = search(), Anonymizer(b"0")
    components = CollectedSettings(with_flags=COMPONENTS)
    plain = hvpa_part(explain_hvpa(cluster.evidence(), "search"))
    result = build_evidence(ClusterState.from_dump(masked(cluster, mask)), mask.mask_namespace(NAMESPACE), components)
    part = hvpa_part(explain_hvpa(result, mask.mask_name("search")))
    assert (part.verdict, part.count, part.size) == (plain.verdict, plain.count, plain.size)
    assert (part.demands, part.count_changes, part.capacities) == (plain.demands, plain.count_changes, plain.capacities)
    assert part.hpa is not None
    assert part.vpa is not None
    assert (part.hpa.owned, part.vpa.owned, part.hpa.totals) == (True, True, {"cpu": "24"})


def test_no_name_remains_in_an_hvpa_and_its_templates() -> None:
    cluster = search()
    document = cluster.objects["Hvpa", (NAMESPACE, "search")]
    metric = {"type": "External", "external": {"metric": {"name": "team/orders"}, "target": {"type": "Value"}}}
    contained = {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app"}}
    document["spec"]["hpa"] = template(metrics=[metric, contained])
    policy = {"containerPolicies": [{"containerName": "proxy", "mode": "Off"}]}
    document["spec"]["vpa"] = template(resourcePolicy=policy)
    document["metadata"]["labels"] = {"team.example/owner": "team"}
    document["status"]["selector"] = "app=search"
    shown = msgspec.json.encode(Anonymizer(b"0").anonymize(document)).decode()
    for word in NAMES:
        assert not re.search(rf'"[^"]*\b{word}\b[^"]*"(?!:)', shown.replace("app=", "")), (word, shown)
    retained = Anonymizer(b"0").anonymize(document)["spec"]
    assert (retained["buckets"], retained["hpa"]["deploy"]) == (document["spec"]["buckets"], True)
