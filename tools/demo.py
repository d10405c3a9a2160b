"""`make demo`: two weeks of a small company's cluster, sized in four ways, and a report to look at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = "demo-report.html"
SCENARIO = "examples/simulate/demo.yaml"


def main() -> None:
    """Run it as a user would, showing the command."""
    trellis = str(Path(sys.executable).with_name("trellis"))
    arguments = ["simulate", SCENARIO, "--html", REPORT]
    print(
        "Sixty workloads over two weeks: once with the requests people wrote, and once with each of three recommenders."
        f"\nNothing but this machine is used.\n\n$ trellis {' '.join(arguments)}\n",
        flush=True,
    )
    status = subprocess.run([trellis, *arguments], cwd=ROOT, check=False).returncode
    if status:
        sys.exit(status)
    print(
        f"\nThe report, with a chart for every workload: {ROOT / REPORT} (open it in a browser)"
        "\n\nNext: docs/guides/simulate.md (your own workloads), docs/guides/backtest.md (your own usage),"
        "\n      trellis check examples (manifests), make cluster (a real control plane to try it on)."
    )


if __name__ == "__main__":
    main()
