"""Write what is derived from the code: CRDs, reference pages, the page of requirements. `--check` only compares.

Each generated file is named once, with the function that makes it. CI runs `--check`, so that a field added to a
struct and not to the CRDs on disk fails the build with the command that mends it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = "deploy/chart/trellis"
sys.path.insert(0, str(ROOT / "tools"))

from decisions import PAGE as ACTUATION  # noqa: E402
from decisions import build_actuation_page  # noqa: E402
from measured.jvm_boost import draw_jvm_boost  # noqa: E402
from monitoring.files import list_monitoring_files  # noqa: E402
from monitoring.metrics_page import build_metrics_page  # noqa: E402
from pages import (  # noqa: E402
    build_cli_page,
    build_component_page,
    build_configuration_page,
    build_kind_page,
    build_reasons_page,
    build_requirements_page,
    build_run_page,
    build_values_page,
)
from permissions.page import build_permissions_page  # noqa: E402
from pictures.boosts import KINDS as BOOST_KINDS  # noqa: E402
from pictures.boosts import PROBES, draw_boosts  # noqa: E402
from pictures.hvpas import draw_day, draw_edges, draw_ladders, draw_order_of_changes  # noqa: E402
from pictures.terminal import draw_terminal  # noqa: E402
from pictures.usage import draw_usage  # noqa: E402
from release.requirements import export_requirements  # noqa: E402
from trellis.api.registry import ALL_KINDS, KINDS, Kind  # noqa: E402
from trellis.api.schema.crds import build_crd  # noqa: E402
from trellis.cli.commands.schema import build_schema  # noqa: E402
from trellis.controllers.admission.metrics import ADMISSION_METRICS  # noqa: E402
from trellis.controllers.admission.settings import AdmissionSettings  # noqa: E402
from trellis.controllers.buffers.metrics import BUFFER_METRICS  # noqa: E402
from trellis.controllers.buffers.settings import BufferControllerSettings  # noqa: E402
from trellis.controllers.hvpa.metrics import HVPA_METRICS  # noqa: E402
from trellis.controllers.hvpa.settings import HvpaControllerSettings  # noqa: E402
from trellis.controllers.nodes.metrics import NODE_METRICS  # noqa: E402
from trellis.controllers.nodes.provider_server.metrics import PROVIDER_SERVER_METRICS  # noqa: E402
from trellis.controllers.nodes.provider_server.settings import NodeProviderServerSettings  # noqa: E402
from trellis.controllers.nodes.settings import NodeControllerSettings  # noqa: E402
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS  # noqa: E402
from trellis.controllers.recommender.settings import RecommenderSettings  # noqa: E402
from trellis.controllers.updater.metrics import UPDATER_METRICS  # noqa: E402
from trellis.controllers.updater.settings import UpdaterSettings  # noqa: E402
from trellis.core.recommend.registry import create_built_in_recommenders  # noqa: E402
from trellis.install.chart import build_chart  # noqa: E402
from trellis.install.single_manifests import build_single_manifests  # noqa: E402
from trellis.reports.formats import encode_yaml  # noqa: E402


def _crd_file(kind: Kind) -> Callable[[], str]:
    return lambda: encode_yaml([build_crd(kind)])


def list_generated() -> dict[str, Callable[[], str]]:
    """Every generated file and what makes it."""
    files: dict[str, Callable[[], str]] = {
        f"deploy/crds/{kind.group}_{kind.plural}.yaml": _crd_file(kind) for kind in KINDS
    }
    # What `deploy/Containerfile` installs.
    files["deploy/requirements.txt"] = lambda: export_requirements(ROOT)
    files["deploy/build-requirements.txt"] = lambda: export_requirements(ROOT, "build")
    for kind in ALL_KINDS:
        files[f"docs/reference/{kind.name.lower()}.md"] = lambda kind=kind: build_kind_page(kind)  # type: ignore[misc]
    # Comments in the examples lead editors there.
    files["examples/trellis.schema.json"] = lambda: json.dumps(build_schema(()), indent=1) + "\n"
    files["docs/reference/reasons.md"] = build_reasons_page
    files["docs/reference/cli.md"] = build_cli_page
    files["docs/reference/run.md"] = build_run_page
    files["docs/reference/configuration.md"] = build_configuration_page
    files["docs/reference/recommender.md"] = lambda: build_component_page(
        "recommender", RecommenderSettings, RECOMMENDER_METRICS, create_built_in_recommenders().values()
    )
    files["docs/reference/admission-controller.md"] = lambda: build_component_page(
        "admission-controller", AdmissionSettings, ADMISSION_METRICS, guide="admission"
    )
    files["docs/reference/updater.md"] = lambda: build_component_page("updater", UpdaterSettings, UPDATER_METRICS)
    files["docs/reference/hvpa-controller.md"] = lambda: build_component_page(
        "hvpa", HvpaControllerSettings, HVPA_METRICS, guide="hvpa"
    )
    files["docs/reference/buffers-controller.md"] = lambda: build_component_page(
        "buffers", BufferControllerSettings, BUFFER_METRICS, guide="buffers"
    )
    files["docs/reference/nodes-controller.md"] = lambda: build_component_page(
        "nodes", NodeControllerSettings, NODE_METRICS, guide="nodes"
    )
    files["docs/reference/node-provider-server.md"] = lambda: build_component_page(
        "node-provider-server",
        NodeProviderServerSettings,
        PROVIDER_SERVER_METRICS,
        guide="nodes-external-grpc",
        has_file=False,
    )
    files["docs/reference/metrics.md"] = build_metrics_page
    files["docs/reference/chart-values.md"] = build_values_page
    for path, text in build_chart().items():
        files[f"{CHART}/{path}"] = lambda text=text: text  # type: ignore[misc]
    for path, text in build_single_manifests().items():
        files[f"deploy/{path}"] = lambda text=text: text  # type: ignore[misc]
    files |= list_monitoring_files()
    files["docs/reference/permissions.md"] = build_permissions_page
    files["docs/images/check.svg"] = lambda: draw_terminal(ROOT)
    files["docs/images/boost-probes.svg"] = lambda: draw_boosts(
        PROBES, "CPU request and limit over time, with and without a probe and a duration"
    )
    files["docs/images/boost-kinds.svg"] = lambda: draw_boosts(
        BOOST_KINDS, "CPU request and limit over time, for a factor, a quantity, RequestsOnly and a recommendation"
    )
    files["docs/images/boost-jvm.svg"] = lambda: draw_jvm_boost(ROOT)
    files["docs/images/usage-shapes.svg"] = draw_usage
    files["docs/images/hvpa-ladders.svg"] = lambda: draw_ladders(ROOT)
    files["docs/images/hvpa-edges.svg"] = lambda: draw_edges(ROOT)
    files["docs/images/hvpa-day.svg"] = lambda: draw_day(ROOT)
    files["docs/images/hvpa-order.svg"] = lambda: draw_order_of_changes(ROOT)
    files[ACTUATION] = lambda: build_actuation_page(ROOT)
    files["docs/reference/requirements.md"] = lambda: build_requirements_page(ROOT)
    return files


def main() -> None:
    """Write the files, or say which differ."""
    checking = "--check" in sys.argv[1:]
    stale = []
    generated = list_generated()
    # A template that is no longer generated would still be installed.
    for path in sorted((ROOT / CHART).rglob("*.*")):
        name = str(path.relative_to(ROOT))
        if path.is_file() and name not in generated:
            stale.append(name)
            if not checking:
                path.unlink()
                print(f"removed {name}")
    for name, make in generated.items():
        path, text = ROOT / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not checking:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {name}")
    if checking and stale:
        sys.exit(f"out of date: {', '.join(stale)}\nRun `make docs` and commit the result.")


if __name__ == "__main__":
    main()
