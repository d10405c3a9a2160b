"""Every example of the proposal does what its comment says, with the numbers of the requirements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.worlds.boosts import container, effective, end, pod, start, with_memory
from trellis.api.resolve import EffectiveVpa, UpdateMode
from trellis.base.yaml.documents import Document, read_documents

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "startup-boost"
READY = 100.0
BOOSTED = "boosted-container-name"
LEFT_OUT = "disable-cpu-boost-for-this-container"


def example(name: str) -> EffectiveVpa:
    (document,) = read_documents((EXAMPLES / f"{name}.yaml").read_bytes())
    assert isinstance(document, Document)
    content: Any = document.value
    return effective(content)


@pytest.mark.req("SB-50", "SB-34")
def test_boost_only() -> None:
    meaning, target = example("boost-only"), {"app": "800m"}
    began = start(pod(container("500m")), meaning, target)
    assert began.cpu() == (1500, None)
    held = end(began, meaning, target, now=READY + 9, ready_since=READY)
    assert (held.cpu(), held.phases.next_transition) == ((1500, None), READY + 10)
    assert end(began, meaning, target, now=READY + 10, ready_since=READY).cpu() == (500, None)


@pytest.mark.req("SB-51")
def test_no_boost() -> None:
    meaning = example("no-boost")
    began = start(pod(container("500m")), meaning, {"app": "800m"})
    assert meaning.mode is UpdateMode.RECREATE
    assert [str(warning).partition(":")[0] for warning in meaning.warnings] == ["spec.updatePolicy.updateMode"]
    assert (began.cpu(), began.annotations, began.notes()) == ((800, None), {}, [])


@pytest.mark.req("SB-52")
def test_boost_and_scaling() -> None:
    meaning = example("boost-and-scaling")
    began = start(pod(container("500m")), meaning, {"app": "400m"})
    assert began.cpu() == (1200, None)
    assert end(began, meaning, {"app": "420m"}, now=READY + 9.9, ready_since=READY).cpu() == (1200, None)
    assert end(began, meaning, {"app": "450m"}, now=READY + 10, ready_since=READY).cpu() == (450, None)


@pytest.mark.req("SB-53")
def test_container_boost_only() -> None:
    meaning, targets = example("container-boost-only"), {BOOSTED: "800m", "other": "300m"}
    began = start(pod(container("500m", name=BOOSTED), container("500m", name="other")), meaning, targets)
    assert (began.cpu(BOOSTED), began.cpu("other")) == ((2500, None), (300, None))
    assert list(began.annotations) == [f"vpaCpuStartupBoost/{BOOSTED}"]
    after = end(began, meaning, targets, now=READY, ready_since=READY)
    assert (after.cpu(BOOSTED), after.cpu("other"), after.annotations) == ((500, None), (300, None), {})


@pytest.mark.req("SB-54", "SB-24")
def test_container_without_boost() -> None:
    meaning, targets = example("container-without-boost"), {LEFT_OUT: "300m", "one": "200m", "two": "150m"}
    began = start(pod(*[container("500m", name=name) for name in targets]), meaning, targets)
    assert [began.cpu(name)[0] for name in targets] == [300, 400, 300]
    assert list(began.annotations) == ["vpaCpuStartupBoost/one", "vpaCpuStartupBoost/two"]


@pytest.mark.req("SB-55", "SB-25", "SB-38")
@pytest.mark.parametrize(
    ("now", "cpu", "advised", "memory"),
    [("2", 500, "1Gi", 600), ("100m", 250, "10Mi", 100), ("400m", 400, "300Mi", 300)],
    ids=["above", "below", "within"],
)
def test_container_boost_and_scaling(now: str, cpu: int, advised: str, memory: int) -> None:
    meaning = example("container-boost-and-scaling")
    came = pod(with_memory(container("300m", name=BOOSTED), "50Mi"))
    began = start(came, meaning, {BOOSTED: {"cpu": "500m", "memory": advised}})
    assert (began.cpu(BOOSTED), began.memory(BOOSTED)) == ((4500, None), (memory << 20, None))
    after = end(began, meaning, {BOOSTED: {"cpu": now, "memory": "10Mi"}}, now=READY, ready_since=READY)
    assert (after.cpu(BOOSTED), after.memory(BOOSTED)) == ((cpu, None), (memory << 20, None))
