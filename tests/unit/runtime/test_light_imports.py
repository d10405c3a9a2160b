"""What a controller imports leaves out everything that only people at a terminal need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("click", "rich", "jinja2", "yaml", "matplotlib", "pandas", "numpy", "tabulate", "plotly", "kubernetes")
# Reading a kubeconfig is reading YAML, and so is nothing else in a controller. Histograms take columns of values.
ALLOWED = {"trellis.runtime": {"numpy"}, "trellis.kube": {"yaml"}}

IMPORT_ALL = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


@pytest.mark.parametrize("package", list(ALLOWED))
def test_a_controller_loads_nothing_for_tables_plots_or_terminals(package: str) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL, package], capture_output=True, text=True, check=True)
    modules, loaded = json.loads(done.stdout)
    assert len(modules) > 10
    assert set(HEAVY) & set(loaded) <= ALLOWED[package]
