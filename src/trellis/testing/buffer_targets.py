"""The conformance suite for kinds of Buffer targets.

With pytest, one line makes a test of every rule:

    from trellis.testing.buffer_targets import conformance_tests

    test_conformance = conformance_tests(GameServerSets, [BUSY, NEW])

Without it, `find_failures(GameServerSets, [BUSY, NEW])` lists the broken rules. Either takes a factory of the
kind, and objects of it as the API server stores them. The rules are those of `trellis.core.buffers.target_kinds`;
each is a function that raises `Nonconformance` when it is broken.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from trellis.api.kinds.parts import TargetReference
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.resolve import EffectiveBuffer, FixedReplicas, Strategy
from trellis.base.errors import UnreadableObject
from trellis.core.buffers import BufferSettings, TargetFacts, TargetKind, TargetReading, TranslationFacts, translate
from trellis.testing.conformance import (
    Check,
    Failure,
    Nonconformance,
    collect_failures,
    make_checks,
    parametrized_test,
)
from trellis.testing.isolation import forbid_clock, forbid_io

Factory: TypeAlias = Callable[[], TargetKind]
Document: TypeAlias = Mapping[str, Any]

_VERSION: Final = re.compile(r"[a-z0-9.-]+\.[a-z0-9.-]+/v[0-9a-z]+")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_PLURAL: Final = re.compile(r"[a-z][a-z0-9]*")
_NOW: Final = 1_800_000_000.0


def declares_itself(make: Factory, _documents: Sequence[Document]) -> None:
    """It declares its apiVersion, kind and plural, and has a method `read`."""
    kind = make()
    if not isinstance(kind, TargetKind):
        raise Nonconformance("it lacks api_version, kind, plural or read")
    declared: list[tuple[re.Pattern[str], Any]] = [
        (_VERSION, kind.api_version),
        (_KIND, kind.kind),
        (_PLURAL, kind.plural),
    ]
    for form, text in declared:
        if not isinstance(text, str) or not form.fullmatch(text):
            raise Nonconformance(f'"{text}" is not written as Kubernetes writes it')


def reads_every_object(make: Factory, documents: Sequence[Document]) -> None:
    """It reads every object: the count is absent or not negative, and the selector has requirements for labels."""
    if not documents:
        raise Nonconformance("there is no object to read")
    for document in documents:
        reading = _read(make(), document)
        replicas: Any = reading.replicas
        if replicas is not None and (not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0):
            raise Nonconformance(f"replicas is {replicas!r}, which is not a count")
        if reading.selector.selects_nothing or not reading.selector.requirements:
            raise Nonconformance("its selector matches no pod, or every pod")


def yields_a_chunk(make: Factory, documents: Sequence[Document]) -> None:
    """Every object with a template gives a chunk, and the selector matches the pods of the template."""
    for document in documents:
        reading = _read(make(), document)
        if reading.template is None:
            continue
        try:
            template = convert_object(dict(reading.template), PodTemplateSpec)
        except UnreadableObject as error:
            raise Nonconformance(f"its template cannot be read: {error.rule}") from error
        if not reading.selector.matches(template.metadata.labels):
            raise Nonconformance("its selector does not match the pods of its template")
        translation = translate(
            _buffer(make()), TranslationFacts(TargetFacts(1, template=template)), _NOW, BufferSettings()
        )
        if translation.pod_spec is None:
            raise Nonconformance(f"its template gives no chunk: {translation.ready}")


def reads_objects_without_status(make: Factory, documents: Sequence[Document]) -> None:
    """It reads an object that has no status yet."""
    for document in documents:
        _read(make(), {name: value for name, value in document.items() if name != "status"})


def leaves_objects_unchanged(make: Factory, documents: Sequence[Document]) -> None:
    """It does not modify the object."""
    for document in documents:
        passed = copy.deepcopy(dict(document))
        _read_without_copy(make(), passed)
        if passed != dict(document):
            raise Nonconformance("the object was modified")


def is_deterministic(make: Factory, documents: Sequence[Document]) -> None:
    """It returns the same result for the same object, from every instance."""
    for document in documents:
        kind = make()
        if not _read(kind, document) == _read(kind, document) == _read(make(), document):
            raise Nonconformance("a second call gave another result")


def does_no_io(make: Factory, documents: Sequence[Document]) -> None:
    """It opens no file, no socket and no process: all it needs is in the object."""
    kind = make()
    with forbid_io() as attempts:
        _try_reading(kind, documents)
    if attempts:
        raise Nonconformance(f"it reached outside: {attempts[0]}")


def reads_no_clock(make: Factory, documents: Sequence[Document]) -> None:
    """It reads no clock."""
    kind = make()
    with forbid_clock() as attempts:
        _try_reading(kind, documents)
    if attempts:
        raise Nonconformance(f"it read the clock: {attempts[0]}")


def _read(kind: TargetKind, document: Document) -> TargetReading:
    """The reading of a copy of the document: `leaves_objects_unchanged` checks changes."""
    return _read_without_copy(kind, copy.deepcopy(dict(document)))


def _read_without_copy(kind: TargetKind, document: Document) -> TargetReading:
    try:
        reading = kind.read(document)
    except Exception as error:
        raise Nonconformance(f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(reading, TargetReading):
        raise Nonconformance(f"it gave a {type(reading).__name__} instead of a TargetReading")
    return reading


def _try_reading(kind: TargetKind, documents: Sequence[Document]) -> None:
    for document in documents:
        try:
            kind.read(copy.deepcopy(dict(document)))
        except Exception:  # noqa: BLE001 - another rule is about that
            return


def _buffer(kind: TargetKind) -> EffectiveBuffer:
    target = TargetReference(kind.api_version, kind.kind, "any")
    return EffectiveBuffer("", Strategy.KEEP_EMPTY, target, FixedReplicas(1), None, None)


__all__ = ["CHECKS", "Check", "Failure", "Nonconformance", "conformance_tests", "find_failures"]


CHECKS: Final = make_checks(
    declares_itself,
    reads_every_object,
    yields_a_chunk,
    reads_objects_without_status,
    leaves_objects_unchanged,
    is_deterministic,
    does_no_io,
    reads_no_clock,
)


def find_failures(make: Factory, documents: Sequence[Document]) -> list[Failure]:
    """Every rule that a kind breaks on these objects; none if it conforms."""
    return collect_failures(CHECKS, lambda check: check.run(make, documents))


def conformance_tests(make: Factory, documents: Sequence[Document]) -> Callable[..., None]:
    """A test function for pytest, with a case for each rule."""
    return parametrized_test(CHECKS, lambda check: check.run(make, documents))
