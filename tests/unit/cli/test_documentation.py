"""Where commands find the address of the documentation."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from trellis.cli.documentation import find_documentation, find_in_metadata
from trellis.cli.main import trellis
from trellis.reports.html.documentation import UNPUBLISHED, Documentation

HOST = "https://docs.example.com/trellis"
USAGE = str(Path(__file__).resolve().parents[3] / "examples/backtest/usage.csv")
RECOMMEND = ("recommend", USAGE, "--quiet")
BACKTEST = ("backtest", USAGE, "--quiet", "--recommenders", "default", "--processes", "1")


def test_the_variable_has_the_address() -> None:
    assert find_documentation({"TRELLIS_DOCS_URL": HOST}) == Documentation(HOST)


def test_without_the_variable_the_package_has_the_address() -> None:
    urls = ["Source, https://git.example.com/trellis", f"Documentation, {HOST}"]
    assert find_in_metadata(urls) == Documentation(HOST)
    assert find_in_metadata(urls[:1]) == UNPUBLISHED
    assert find_documentation({"TRELLIS_DOCS_URL": ""}) == find_documentation({})


def test_a_wrong_address_is_refused_with_the_name_of_the_variable() -> None:
    with pytest.raises(click.UsageError, match=r'environment variable TRELLIS_DOCS_URL: "docs": must be the address'):
        find_documentation({"TRELLIS_DOCS_URL": "docs"})


@pytest.mark.parametrize("command", [RECOMMEND, BACKTEST])
def test_a_page_links_to_the_documentation(command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(trellis, [*command, "-o", "html"], env={"TRELLIS_DOCS_URL": HOST})
    assert done.exit_code == 0
    assert f'<a href="{HOST}/docs/guides/' in done.stdout


@pytest.mark.parametrize("options", [("-o", "html"), ("--output-file", "page.html"), ("--html", "page.html")])
def test_a_wrong_address_is_refused_before_a_page_is_made(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(trellis, [*BACKTEST, *options], env={"TRELLIS_DOCS_URL": "ftp://docs"})
    assert done.exit_code == 2
    assert "TRELLIS_DOCS_URL" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_other_formats_do_not_need_the_address() -> None:
    done = CliRunner().invoke(trellis, [*RECOMMEND, "-o", "json"], env={"TRELLIS_DOCS_URL": "ftp://docs"})
    assert done.exit_code == 0
