"""The configuration file: its fields, its checks, and how a changed one is applied while components run."""

from __future__ import annotations

from typing import Final

GROUP: Final = "config.trellis.x-k8s.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "TrellisConfiguration"
EFFECT: Final = "Sets what the components of Trellis do, for a command whose --config names the file."
