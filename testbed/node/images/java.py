"""A container image with a JVM: Debian's OpenJDK and the libraries that it needs, unpacked and not installed.

Its program is `SlowStart.java`, which the JVM compiles when it starts, and which loads classes until it is ready.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Final

from testbed.errors import HarnessError
from testbed.node import packages
from testbed.node.images.archives import Image, build_busybox_layer

JAVA: Final = "trellis-node.local/java:1"

# The first that this release of Debian has.
_RUNTIMES: Final = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "openjdk-25-jre-headless")
_LIBRARIES: Final = ("libc6", "libgcc-s1", "libstdc++6", "zlib1g")
_NAME: Final = "java"

_PROGRAM: Final = Path(__file__).with_name("SlowStart.java")
# The file that the program makes in its container when it is ready.
READY: Final = "/run/ready"

# What a JVM without a screen reads, as patterns below the directory of the packages.
_FILES: Final = (
    "usr/lib/jvm/*/bin/java",
    "usr/lib/jvm/*/lib",
    "usr/lib/jvm/*/conf",
    "etc/java-*",
    "lib/x86_64-linux-gnu/*.so*",
    "usr/lib/x86_64-linux-gnu/*.so*",
    "lib64/*.so*",
    "usr/lib64/*.so*",
)


def fetch_packages() -> str:
    """Download what is missing; the reason if that fails, else empty. There is no network in a sandbox."""
    problems = []
    for runtime in _RUNTIMES:
        try:
            packages.unpack(_NAME, runtime, *_LIBRARIES)
        except HarnessError as error:
            problems.append(str(error))
        else:
            return ""
    return problems[0]


def find_problem() -> str:
    """Why there is no image, in a sentence; empty if it can be made."""
    return "" if packages.find_unpacked(_NAME) else "Debian's packages of a JVM are not in the cache"


def build_start_command(classes: int) -> tuple[str, ...]:
    """Writes the time of its begin and of its end, in seconds since the machine started, to the container's log."""
    java = "/usr/lib/jvm/*/bin/java"
    options = f"-Xmx96m /opt/{_PROGRAM.name} {classes} {READY}"
    return ("sh", "-c", f"echo begun $(cat /proc/uptime); exec {java} {options}")


def build_java_image(busybox: Path) -> Image:
    """The layers of a shell and of a JVM."""
    home = packages.find_unpacked(_NAME)
    if home is None:
        raise HarnessError(find_problem())
    return Image(JAVA, (build_busybox_layer(busybox), _build_layer(home.resolve())), ("/bin/sh",))


def _build_layer(home: Path) -> bytes:
    """What a JVM reads, under one name each, and the program."""
    found = sorted(path for pattern in _FILES for path in home.glob(pattern))
    files = [path for path in found if path.parent.resolve() == path.parent]
    buffer = io.BytesIO()
    with tarfile.TarFile(fileobj=buffer, mode="w") as archive:
        for path in files:
            archive.add(path, str(path.relative_to(home)), filter=_select)
        archive.add(_PROGRAM, f"opt/{_PROGRAM.name}", filter=_select)
        for name in ("lib", "lib64"):
            if not (home / name).exists():  # newer releases have everything below /usr
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
                archive.addfile(link)
    return buffer.getvalue()


def _select(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """All but an archive of classes for heaps above 32 GiB."""
    entry.uid = entry.gid = 0
    return None if entry.name.endswith("classes_nocoops.jsa") else entry
