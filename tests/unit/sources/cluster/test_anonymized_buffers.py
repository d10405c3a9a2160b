"""An anonymized dump explains the capacity of a Buffer."""

from __future__ import annotations

import re

import msgspec
import pytest

from support.builders.collected_clusters import COMPONENTS, NAMESPACE, Cluster, spare
from trellis.base.json_lines import encode_line, read_lines
from trellis.core.cluster.dump_format import OBJECT
from trellis.core.cluster.state import ClusterState
from trellis.core.explain import CollectedSettings, build_evidence, explain_buffer
from trellis.core.explain.explanation.buffer import BufferPart
from trellis.sources.cluster.anonymization import Anonymizer

ALL_COMPONENTS = CollectedSettings(with_flags=(*COMPONENTS, "buffers"))
NAMES = ("web", "builds", "build", "spot", "shop", "team")


def masked(cluster: Cluster, mask: Anonymizer) -> list[bytes]:
    """The lines of a dump, of which the objects are masked."""
    lines = cluster.lines()
    return [
        encode_line(OBJECT, mask.anonymize(msgspec.json.decode(data))) if kind == OBJECT else line
        for line, (kind, data) in zip(lines, read_lines(lines), strict=True)
    ]


def explain_buffer_in_dump(lines: list[bytes], namespace: str, name: str) -> BufferPart:
    result = explain_buffer(build_evidence(ClusterState.from_dump(lines), namespace, ALL_COMPONENTS), name)
    assert result.buffer is not None
    return result.buffer


@pytest.mark.parametrize("name", ["web", "builds", "spot"])
def test_an_anonymized_dump_gives_the_same_decision(name: str) -> None:
    cluster, mask = spare(), Anonymizer(b"0")
    plain = explain_buffer_in_dump(cluster.lines(), NAMESPACE, name)
    part = explain_buffer_in_dump(masked(cluster, mask), mask.mask_namespace(NAMESPACE), mask.mask_name(name))
    assert (part.ready, part.desired_chunks, part.chunks, part.totals) == (
        plain.ready,
        plain.desired_chunks,
        plain.chunks,
        plain.totals,
    )
    assert (part.headroom, part.cost, part.schedule, part.filled) == (
        plain.headroom,
        plain.cost,
        plain.schedule,
        plain.filled,
    )
    assert part.requested_capacity is not None
    assert plain.requested_capacity is not None
    assert (part.requested_capacity.smallest, part.requested_capacity.nodes) == (
        plain.requested_capacity.smallest,
        plain.requested_capacity.nodes,
    )


def test_no_name_remains_in_a_buffer() -> None:
    cluster = spare()
    for name in ("web", "builds", "spot"):
        document = cluster.objects["Buffer", (NAMESPACE, name)]
        document["metadata"]["labels"] = {"team.example/owner": "team"}
        shown = msgspec.json.encode(Anonymizer(b"0").anonymize(document)).decode()
        for word in NAMES:
            assert not re.search(rf'"[^"]*\b{word}\b[^"]*"(?!:)', shown), (word, shown)


def test_public_fields_are_not_anonymized() -> None:
    cluster = spare()
    retained = Anonymizer(b"0").anonymize(cluster.objects["Buffer", (NAMESPACE, "spot")])["spec"]
    assert retained["capacity"] == {"nodeClass": {"totalCpu": "10", "totalMem": "20Gi"}}
    assert retained["targetRef"]["kind"] == "NodePool"
    retained = Anonymizer(b"0").anonymize(cluster.objects["Buffer", (NAMESPACE, "builds")])["spec"]
    assert retained["recreationStrategy"] == "KeepMinimum"
    assert retained["schedule"] == cluster.objects["Buffer", (NAMESPACE, "builds")]["spec"]["schedule"]
