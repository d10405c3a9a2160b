"""What would the Buffer controller make of a Buffer, told what was collected? Its own translation, within quotas."""

from __future__ import annotations

import math

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.resolve import EffectiveBuffer, resolve_buffer
from trellis.core.buffers import Facts, Said, Translation, left_alone, settled, translate
from trellis.core.explain.buffer_facts import Gathering
from trellis.core.explain.buffer_rooms import Rooms
from trellis.core.explain.evidence import Evidence
from trellis.core.model.keys import BY_NAMESPACE, key_of


class Buffered(msgspec.Struct, frozen=True):
    """One Buffer and what is made of it; without a translation it is not ours, and `alone` says why."""

    buffer: Buffer
    meaning: EffectiveBuffer
    alone: Said | None = None
    facts: Facts = Facts()
    translation: Translation | None = None


def buffered_in(evidence: Evidence, rooms: Rooms) -> dict[str, Buffered]:
    """Translations of all Buffers of a namespace, which share its quotas, by name."""
    collected, namespace = evidence.collected, evidence.namespace
    gathering, settings = Gathering(evidence, rooms), evidence.components.buffers
    found: dict[str, Buffered] = {}
    made: dict[tuple[str, ...], tuple[float, Translation]] = {}
    for buffer in collected.buffers.by(BY_NAMESPACE, namespace):
        meaning = resolve_buffer(buffer)
        name, alone = buffer.metadata.name, left_alone(meaning, settings)
        if alone is not None:
            found[name] = Buffered(buffer, meaning, alone)
            continue
        facts = gathering.facts(buffer, meaning)
        translation = translate(meaning, facts, evidence.now, settings)
        found[name] = Buffered(buffer, meaning, None, facts, translation)
        made[key_of(buffer)] = (_created(buffer), translation)
    shared = settled(made, collected.quotas.by(BY_NAMESPACE, namespace))
    for key, translation in shared.items():
        name = key[-1]
        found[name] = msgspec.structs.replace(found[name], translation=translation)
    return found


def _created(buffer: Buffer) -> float:
    moment = buffer.metadata.creation_timestamp
    return moment.timestamp() if moment is not None else math.nan
