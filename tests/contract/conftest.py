"""The oracle, once for all contract tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from oracle.build import NoOracleError, program
from support.oracles.kubernetes import Oracle


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile before the first test starts: a cold build is longer than a test may take.

    The line that says so would be captured and lost, so capturing is off meanwhile. If it cannot be
    compiled, the fixture says why, in the tests that need it and in no others.
    """
    wanted = any("oracle" in getattr(item, "fixturenames", ()) for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    capturing = session.config.pluginmanager.getplugin("capturemanager")
    with capturing.global_and_fixture_disabled() if capturing else nullcontext():
        try:
            program()
        except NoOracleError:
            return


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    with Oracle() as conversation:
        yield conversation
