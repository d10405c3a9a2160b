from __future__ import annotations

from trellis.reports.text.tables import choose_fitting, stack_rows


def test_a_table_that_fits_is_preferred_to_stacked_rows() -> None:
    assert choose_fitting([["a" * 50], ["a" * 30]], 40, lambda: ["stacked"]) == ["a" * 30]
    assert choose_fitting([["a" * 50]], 40, lambda: ["stacked"]) == ["stacked"]


def test_stacked_rows_name_each_figure_and_leave_out_what_is_empty() -> None:
    lines = stack_rows(["", "pods", "CPU", ""], [["  shop/web", "3", "", "-41 %"]], 40)
    assert lines == ["shop/web", "  pods: 3", "  -41 %"]


def test_a_stacked_name_is_not_broken_at_its_hyphens() -> None:
    assert stack_rows(["", "image"], [["web", "registry/my-web-server:1"]], 30)[1:] == [
        "  image:",
        "    registry/my-web-server:1",
    ]


def test_a_stacked_figure_without_a_head_follows_the_figure_that_it_belongs_to() -> None:
    lines = stack_rows(["", "now", "advised", "", "GiB", ""], [["shop", "2.5", "1.74", "-30 %", "2", "="]], 40)
    assert lines == ["shop", "  now: 2.5", "  advised: 1.74 (-30 %)", "  GiB: 2 (=)"]
