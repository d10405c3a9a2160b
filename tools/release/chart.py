"""Packages the chart as `helm package` does; the same files give the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path


def package_chart(root: Path) -> bytes:
    """The package of the chart below the root of a checkout, for a file such as `trellis-0.1.0.tgz`."""
    chart = root / "deploy" / "chart" / "trellis"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(f"trellis/{path.relative_to(chart)}")
            entry.size = path.stat().st_size
            archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return gzip.compress(packed.getvalue(), mtime=0)
