"""Why does a VerticalPodAutoscaler recommend what it does? All that the last pass decided about it, as a document.

Nothing is worked out anew: who answered, what it found and why, what became of that, what is published, which
conditions hold, and what other recommenders would have said. The keys are part of the interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import numpy as np

from trellis.base.times import format_time
from trellis.core.recommend.amounts import LOWER, MIDDLE, UPPER
from trellis.core.recommend.capping.policy import compile_caps
from trellis.core.recommend.conditions import TYPES, Holds, condition_documents
from trellis.core.recommend.last_pass import LastPass
from trellis.core.recommend.published import recommendations_in
from trellis.core.recommend.results import Explanation
from trellis.core.recommend.shadows import shadows_of
from trellis.core.recommend.status import container_documents, resource_texts
from trellis.core.recommend.vpas import Entry
from trellis.core.usage.columns import FloatColumn

_BOUNDS: Final = (("lowerBound", LOWER), ("target", MIDDLE), ("upperBound", UPPER))


def vpa_document(last: LastPass, number: int) -> dict[str, Any]:
    """Everything about one VPA."""
    entry, texts = last.entries[number], last.spoken(number).texts
    vpa = entry.vpa
    rows = last.rows(number)
    explained = [last.result.explained(row) for row in rows]
    document: dict[str, Any] = {
        "namespace": vpa.namespace,
        "name": vpa.name,
        "generation": vpa.generation,
        "recommender": vpa.recommender,
        "given": dict(vpa.effective.parameters),
        "parameters": next((dict(each.values) for each in explained if each.values), {}),
        "updateMode": str(vpa.effective.mode),
        "time": _time(last.time),
        "conditions": _conditions(last, number, rows),
        "containers": _containers(last, number, rows, explained),
    }
    if texts.failure:
        document["failure"] = texts.failure
    absent = [each.recommender for each in last.result.unhosted if (each.namespace, each.vpa) == _key(entry)]
    return document | ({"shadowsNotRunning": absent} if absent else {})


def vpa_line(last: LastPass, number: int) -> dict[str, Any]:
    """A VPA among others: who serves it, and which conditions hold."""
    entry, truth = last.entries[number], int(last.result.truth[number])
    vpa = entry.vpa
    document: dict[str, Any] = {
        "namespace": vpa.namespace,
        "name": vpa.name,
        "recommender": vpa.recommender,
        "conditions": sorted(type_ for bit, type_ in TYPES.items() if truth & bit),
    }
    shadows = shadows_of(vpa.annotations, vpa.recommender)
    return document | ({"shadows": list(shadows)} if shadows else {})


def _conditions(last: LastPass, number: int, rows: Iterable[int]) -> list[dict[str, Any]]:
    if last.entries[number].state is None:
        return []  # nobody has looked at its target yet
    truth = int(last.result.truth[number])
    shortage = last.shortage(number) if truth & Holds.LOW_CONFIDENCE else None
    sizes_any = last.entries[number].vpa.sizes_any(last.result.columns.keys[row].container for row in rows)
    return condition_documents(last.spoken(number), truth, shortage, _time(last.time), sizes_any=sizes_any)


def _containers(
    last: LastPass, number: int, rows: Sequence[int], explained: Sequence[Explanation]
) -> list[dict[str, Any]]:
    recommended = _recommended(last.entries[number], explained)
    published = recommended if last.written[number] else _published(last.entries[number])
    columns = last.result.columns
    return [
        {
            "name": each.key.container,
            "reason": each.reason.code,
            "meaning": each.reason.meaning,
            "recommender": each.recommender,
            "explanation": _said(each.said),
            "confidence": _number(each.confidence),
            "samples": int(columns.count[row]),
            "firstSample": _moment(columns.first[row]),
            "lastSample": _moment(columns.last[row]),
            "found": _bounds(each.found),
            "recommended": recommended.get(each.key.container, {}),
            "published": published.get(each.key.container, {}),
            "shadows": {
                name: {"found": _bounds(shadow.found), "explanation": _said(shadow.said), "failure": shadow.failure}
                for name, shadow in sorted(each.shadows.items())
            },
        }
        for row, each in zip(rows, explained, strict=True)
    ]


def _recommended(entry: Entry, explained: Sequence[Explanation]) -> dict[str, dict[str, Any]]:
    """What a status says if it is written now, by container."""
    if not explained:
        return {}
    names = [each.key.container for each in explained]
    amounts = np.stack([each.amounts for each in explained], axis=-1)
    spelled = [compile_caps(entry.vpa.effective.container(name)).spelled for name in names]
    documents = container_documents(names, amounts, {at: each for at, each in enumerate(spelled) if each})
    return {
        document.pop("containerName"): {key: value for key, value in document.items() if value}
        for document in documents
    }


def _published(entry: Entry) -> dict[str, dict[str, Any]]:
    """What the status of the object says, by container."""
    documents = map(msgspec.to_builtins, recommendations_in(entry.vpa.status))
    return {document.pop("containerName"): document for document in documents}


def _bounds(found: FloatColumn) -> dict[str, dict[str, str]]:
    """Lower bound, target and upper bound, (bound, resource); nothing where there is none."""
    texts = {name: resource_texts(found[bound][:, None])[0] for name, bound in _BOUNDS}
    return {name: amounts for name, amounts in texts.items() if amounts}


def _said(said: Mapping[str, float | str]) -> dict[str, float | str | None]:
    return {name: value if isinstance(value, str) else _number(value) for name, value in said.items()}


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _moment(seconds: float) -> str | None:
    return _time(seconds) if np.isfinite(seconds) else None


def _time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(float(seconds), UTC))


def _key(entry: Entry) -> tuple[str, str]:
    return entry.vpa.namespace, entry.vpa.name
