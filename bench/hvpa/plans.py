"""Measures one pass of decisions over 10,000 Hvpas, with nothing new for any of them and with something for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random
from typing import Any

import msgspec

from bench.measurement import CannotMeasure, Row, in_ms, within

HVPAS = 10_000
PARTS = (10, 3)  # of them, to see how it grows
ROUNDS = 5
SECONDS = 1.0
NOW = 1_800_000_000.0

Json = dict[str, Any]


def measure() -> list[Row]:
    try:
        from trellis.core.hvpa import HvpaSettings, plan_hvpa  # noqa: PLC0415
    except ImportError as error:
        raise CannotMeasure(str(error)) from error
    settings = HvpaSettings()
    rng = Random(1)  # noqa: S311 - the same every time
    views = [_view(rng, at) for at in range(HVPAS)]
    known = [_after(view, plan_hvpa(view, NOW, settings)) for view in views]
    moved = [_moved(rng, view) for view in known]

    def decide(some: Sequence[Any]) -> Callable[[], object]:
        return lambda: sum(len(plan_hvpa(view, NOW + 60, settings).actions) for view in some)

    rows = []
    for what, some in (("unchanged", known), ("all changed", moved)):
        seconds = _best(decide(some))
        rows.append(within(f"plans of {HVPAS:,} Hvpas, {what}", seconds, SECONDS))
        for part in PARTS:
            less = _best(decide(some[: HVPAS // part]))
            ratio = f"{seconds / less / part:.2f}x for each of all"
            rows.append(Row(f"  of 1/{part} of them", in_ms(less), ratio=ratio))
    return rows


def _best(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _view(rng: Random, at: int) -> Any:
    """A workload of two containers with an HPA and a VPA; every tenth Hvpa has 16 buckets, the others two."""
    from trellis.api.kinds.hvpa import Hvpa  # noqa: PLC0415
    from trellis.api.resolve import resolve_hvpa  # noqa: PLC0415
    from trellis.core.hvpa import ContainerView, HpaView, HvpaView, ResolvedHvpa  # noqa: PLC0415

    meaning = ResolvedHvpa.from_effective(resolve_hvpa(msgspec.convert(_hvpa(16 if at % 10 == 0 else 2), Hvpa)))
    replicas = rng.randrange(2, 12)
    containers = []
    for name in ("app", "proxy"):
        size = {"cpu": rng.randrange(100, 2000), "memory": rng.randrange(2**27, 2**31)}
        total = {resource: replicas * amount for resource, amount in size.items()}
        containers.append(ContainerView(name, True, size, total, size, size, size))
    return HvpaView(
        meaning=meaning,
        replicas=replicas,
        pods=replicas,
        ready=replicas,
        containers=tuple(containers),
        spec_replicas=replicas,
        hpa=HpaView(Fraction(rng.randrange(95, 105), 100), frozenset({"cpu"}), 1, 64),
    )


def _after(view: Any, made: Any) -> Any:
    """The same a pass later: what was decided is there, and known."""
    from trellis.core.hvpa import SetScale, WriteBack  # noqa: PLC0415

    replicas = next((action.replicas for action in made.actions if isinstance(action, SetScale)), view.replicas)
    spec_replicas = next(
        (action.replicas for action in made.actions if isinstance(action, WriteBack)), view.spec_replicas
    )
    containers = []
    for container in view.containers:
        size = dict(made.containers.get(container.name, container.requests))
        containers.append(msgspec.structs.replace(container, requests=size, least=size, published=size))
    return msgspec.structs.replace(
        view, replicas=replicas, pods=replicas, ready=replicas, spec_replicas=spec_replicas,
        containers=tuple(containers), memory=made.memory,
    )  # fmt: skip


def _moved(rng: Random, view: Any) -> Any:
    """Another wish, and other totals of everything."""
    containers = []
    for container in view.containers:
        factor = rng.uniform(0.4, 2.5)
        total = {name: int(factor * amount) for name, amount in container.total.items()}
        containers.append(msgspec.structs.replace(container, total=total))
    return msgspec.structs.replace(
        view, spec_replicas=view.spec_replicas + rng.randrange(1, 4), containers=tuple(containers)
    )


def _hvpa(many: int) -> Json:
    """Buckets of equal replicas, together for 2 to 33 of them."""
    counts = [(2 + 2 * at, 3 + 2 * at) for at in range(many)] if many > 2 else [(2, 3), (4, 33)]
    buckets = [
        {
            "replicas": {"min": first, "max": last},
            "cpu": {"min": "2" if first > 2 else "100m", "max": "3"},
            "memory": {"min": "3Gi" if first > 2 else "128Mi", "max": "4Gi"},
        }
        for first, last in counts
    ]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    sources = {"hpa": {"deploy": True}, "vpa": {"deploy": True}}
    return {"metadata": {"name": "web"}, "spec": {"targetRef": target, "buckets": buckets, **sources}}
