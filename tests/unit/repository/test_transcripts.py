"""Transcripts in the documentation are rewritten with what their commands print now."""

from __future__ import annotations

from support.docs.transcripts import matches, replace_steps, rewrite_lines, steps

PRINTED = [
    "Pod web-1",
    "",
    "The pod waits: no budget.",
    "",
    "PODS",
    "  web-1 requests CPU 2",
    "  web-2 requests CPU 2",
    "end",
]


def test_lines_without_dots_become_all_that_is_printed() -> None:
    assert rewrite_lines(["one ", "two"], ["another"]) == ["one", "two"]


def test_a_changed_line_between_dots_becomes_the_most_similar_line() -> None:
    expected = ["...", "The pod waits: the budget is used up.", "...", "  web-2 requests CPU 1", "..."]
    rewritten = rewrite_lines(PRINTED, expected)
    assert rewritten == ["...", "The pod waits: no budget.", "...", "  web-2 requests CPU 2", "..."]
    assert matches(PRINTED, rewritten)


def test_lines_before_the_first_dots_and_after_the_last_stay_at_the_ends() -> None:
    assert rewrite_lines(PRINTED, ["Pod web-2", "...", "  web-1 requests CPU 1", "  web-2 requests CPU 1", "end"]) == [
        "Pod web-1",
        "...",
        "  web-1 requests CPU 2",
        "  web-2 requests CPU 2",
        "end",
    ]


def test_lines_between_dots_that_are_printed_no_more_are_left_to_be_mended_by_hand() -> None:
    assert rewrite_lines(PRINTED, ["...", "CONDITIONS", "..."]) is None
    assert rewrite_lines(PRINTED, ["...", "PODS", "...", "Pod web-1", "..."]) is None
    assert rewrite_lines(PRINTED, ["Deployment shop/web", "..."]) is None


def test_the_steps_of_one_block_are_replaced_in_a_page() -> None:
    page = "# Page\n\n```console\n$ say a\na\n$ say b\nb\n```\n\n```console\n$ say a\na\n```\n"
    block = steps("$ say a\na\n$ say b\nb\n")
    assert replace_steps(page, block, [("say a", ["A"]), ("say b", ["b"])]) == page.replace("a\na\n$", "a\nA\n$")
