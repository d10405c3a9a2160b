"""Trellis: autoscaling for Kubernetes that can be asked what it will do, and why it did it.

The package is ranked: `base`, `api`, `core`, then the shells around them, `cli` on top. What to do is decided by pure
functions in `core`; doing it is left to thin shells. A package may import what stands below it and nothing else;
import-linter holds that rank (see `pyproject.toml`), and docs/architecture.md explains it.
"""

__version__ = "0.1.0"
