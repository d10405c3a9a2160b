"""Starts an unpacked image as the manifests do, without a container runtime.

It has a mount namespace of its own with a read-only root, and runs as the image's user, without capabilities and
without a way to gain some. It shares the network of this machine. It needs Linux, root, and `unshare` and `setpriv` of
util-linux.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

# $1 is the root of the image, $2 a file to read there as /run/kubeconfig, $3 the user. Other processes see no mount.
_SCRIPT: Final = """
set -eu
root=$1 file=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount --bind /dev "$root/dev"
mount --rbind /proc "$root/proc"
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
install --owner="${user%:*}" --mode=0400 "$file" "$root/run/kubeconfig"
mount -o remount,bind,ro "$root"
cd "$root"
exec setpriv --no-new-privs env -i "$@"
"""
KUBECONFIG: Final = "/run/kubeconfig"


def find_problem() -> str:
    """Why no image can be started here, in a sentence; empty if it can."""
    if os.geteuid():
        return "starting an image without a container runtime needs root"
    missing = next((tool for tool in ("unshare", "setpriv", "chroot") if shutil.which(tool) is None), "")
    return f"starting an image without a container runtime needs {missing}" if missing else ""


def build_command(
    root: Path, configuration: Mapping[str, Any], kubeconfig: Path, arguments: Sequence[str]
) -> list[str | Path]:
    """The command that starts the entry point of an unpacked image with these arguments, in this very process."""
    user, [unshare, chroot] = configuration["User"], [shutil.which(tool) or tool for tool in ("unshare", "chroot")]
    program = [*configuration["Env"], chroot, f"--userspec={user}", root, *configuration["Entrypoint"], *arguments]
    return [unshare, "--mount", "sh", "-c", _SCRIPT, "sh", root, kubeconfig, user, *program]
