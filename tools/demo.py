"""`make demo`: two weeks of a small company's cluster, sized in four ways, and a report to look at."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = "examples/simulate/demo.yaml"
REPORT = "demo-report.html"
BEFORE = """\
Sixty workloads over two weeks: with the requests people wrote, and sized by three recommenders.
Nothing but this machine is used. It takes a minute or two.
"""
AFTER = """\
Open the report in a browser, it has a chart for every workload:
  {address}

Next: docs/guides/simulate.md (your own workloads), docs/guides/backtest.md (your own usage),
      trellis check examples (manifests), make cluster (a real control plane to try it on).
"""


def main() -> None:
    """Run it as a user would, showing the command."""
    options = _options()
    arguments = ["simulate", SCENARIO, "--html", options.report]
    if options.only:
        arguments += ["--only", options.only]
    print(f"{BEFORE}\n  trellis {' '.join(arguments)}\n", flush=True)
    trellis = Path(sys.executable).with_name("trellis")
    status = subprocess.run([trellis, *arguments], cwd=ROOT, check=False).returncode
    if status:
        sys.exit(status)
    print(f"\n{AFTER.format(address=(ROOT / options.report).as_uri())}", end="")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", default=REPORT, metavar="FILE", help="where the report goes (%(default)s)")
    parser.add_argument("--only", default="", metavar="VARIANT", help="play this variant alone, which is quicker")
    return parser.parse_args()


if __name__ == "__main__":
    main()
