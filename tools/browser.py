"""A browser for the tests of reports: Debian's Chromium, where it is missing and can be had.

Never fails: without a browser those tests are skipped with a word.
"""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome")
STEPS = (
    ["apt-get", "update", "-qq"],
    ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"],
)


def main() -> None:
    """Look for one, and install one."""
    result = next((path for name in NAMES if (path := shutil.which(name))), None)
    if result is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for step in STEPS:
            try:
                subprocess.run(step, env=environment, check=True, timeout=600, stdout=subprocess.DEVNULL)
            except (subprocess.SubprocessError, OSError) as error:
                print(f"no browser: {' '.join(step)}: {error}")
                break
        result = shutil.which("chromium")
    print(f"browser: {result}" if result else "no browser: the tests that need one are skipped")


if __name__ == "__main__":
    main()
