"""Process 1 of a sandbox: sets up mounts and network, runs a command, and reaps what is orphaned.

`/etc` and `/var` are overlays, so that nothing written there is seen outside, and `/run` is a tmpfs. kubelet insists on
six settings of the whole machine: private files are bound over them, and with `protectKernelDefaults` it writes none.

Run as `python -m testbed.node.init <directory> <command> ...`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed.errors import HarnessError
from testbed.node import signals

# kubelet refuses a loopback address, and a kernel may have no dummy device.
NODE_ADDRESS: Final = "10.99.0.1"

# The values that kubelet asks for.
_SYSCTLS: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def main(directory: Path, command: Sequence[str]) -> int:
    """Set up, run the command, and return its exit status."""
    signals.block()
    _set_up_mounts(directory)
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "lo")
    return signals.wait_for(signals.spawn(command))


def _set_up_mounts(directory: Path) -> None:
    _run("mount", "--make-rshared", "/")
    for name in ("etc", "var"):
        upper, work = directory / f"{name}.upper", directory / f"{name}.work"
        upper.mkdir()
        work.mkdir()
        options = f"lowerdir=/{name},upperdir={upper},workdir={work}"
        _run("mount", "-t", "overlay", "overlay", "-o", options, f"/{name}")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    Path("/run/lock").mkdir()
    settings = directory / "sysctl"
    settings.mkdir()
    for name, value in _SYSCTLS.items():
        file = settings / name.replace("/", ".")
        file.write_text(f"{value}\n")
        _run("mount", "--bind", str(file), f"/proc/sys/{name}")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the sandbox of the node cannot be set up: `{' '.join(command)}`: {done.stderr.strip()}")


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
    except HarnessError as error:
        sys.exit(str(error))
