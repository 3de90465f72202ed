"""The solver's tree, folded so that it fits a screen."""

from __future__ import annotations

from lockgen.conflict import MOST_LINES, readable

HEAD = "Cannot solve the request because of: "


def tree(*lines: str) -> str:
    return "\n".join((f"{HEAD}The following packages are incompatible", *lines))


def test_one_sentence_stays_as_it_is() -> None:
    assert readable(f"{HEAD}No candidates were found for nothing >9.") == "No candidates were found for nothing >9."


def test_a_sentence_before_a_tree_is_its_root() -> None:
    text = f"{HEAD}pytorch 2.9.* cannot be installed\n└─ pytorch 2.9.1 would require\n   └─ python 3.13.*\n"
    assert readable(text) == (
        "└─ pytorch 2.9.* cannot be installed\n   └─ pytorch 2.9.1 would require\n      └─ python 3.13.*"
    )


def test_builds_that_fail_alike_are_one_line_with_the_span_of_versions() -> None:
    text = tree(
        "└─ python 3.14.* cannot be installed because there are no viable options:",
        "   ├─ python 3.14.2, which conflicts with the versions reported above.",
        "   ├─ python 3.14.10, which conflicts with the versions reported above.",
        "   └─ python 3.14.0, which conflicts with the versions reported above.",
    )
    assert readable(text) == (
        "└─ python 3.14.* cannot be installed because there are no viable options:\n"
        "   └─ python 3.14.0 … 3.14.10 (3 builds), which conflict with the versions reported above."
    )


def test_builds_of_one_version_show_it_once() -> None:
    text = tree(
        "├─ tool 1.0, which conflicts with the versions reported above.",
        "└─ tool 1.0, which conflicts with the versions reported above.",
    )
    assert readable(text) == "└─ tool 1.0 (2 builds), which conflict with the versions reported above."


def test_builds_that_need_the_same_are_one_line() -> None:
    text = tree(
        "├─ tool 1.0 would require",
        "│  └─ python <3.13, for which no candidates were found.",
        "└─ tool 1.1 would require",
        "   └─ python <3.13, for which no candidates were found.",
    )
    assert readable(text) == (
        "└─ tool 1.0 … 1.1 (2 builds) all require\n   └─ python <3.13, for which no candidates were found."
    )


def test_builds_that_need_different_things_stay_apart() -> None:
    text = tree(
        "├─ tool 1.0 would require", "│  └─ python <3.13", "└─ tool 1.1 would require", "   └─ python <3.12"
    )  # fmt: skip
    assert readable(text) == (
        "├─ tool 1.0 would require\n│  └─ python <3.13\n└─ tool 1.1 would require\n   └─ python <3.12"
    )


def test_the_fourth_like_branch_and_those_after_it_are_counted() -> None:
    lines = [line for n in range(9) for line in (f"├─ tool 1.{n} would require", f"│  └─ base =={n}")]
    found = readable(tree(*lines, "└─ the constraint base <0 cannot be fulfilled"))
    assert found.splitlines()[4:] == [
        "├─ tool 1.2 would require",
        "│  └─ base ==2",
        "├─ … 6 more of tool, for like reasons",
        "└─ the constraint base <0 cannot be fulfilled",
    ]


def test_exactly_as_many_as_are_shown_are_not_counted() -> None:
    lines = [line for n in range(3) for line in (f"├─ tool 1.{n} would require", f"│  └─ base =={n}")]
    assert "more of" not in readable(tree(*lines))


def test_equal_branches_are_shown_once() -> None:
    assert readable(tree("├─ a >1, for which x", "└─ a >1, for which x")) == "└─ a >1, for which x"


def test_depth_is_kept() -> None:
    text = tree("└─ a", "   ├─ b", "   │  └─ c", "   │     └─ d", "   └─ e")
    assert readable(text) == "└─ a\n   ├─ b\n   │  └─ c\n   │     └─ d\n   └─ e"


def test_a_long_tree_says_how_many_lines_of_its_middle_are_not_shown() -> None:
    found = readable(tree(*(f"├─ package{n} cannot be had" for n in range(MOST_LINES + 7)))).splitlines()
    assert len(found) == MOST_LINES + 1
    assert found[15:18] == ["├─ package15 cannot be had", "… 7 more lines …", "├─ package23 cannot be had"]
    assert "\n… 1 more line …\n" in readable(tree(*(f"├─ p{n} cannot be had" for n in range(MOST_LINES + 1))))


def test_no_text_is_no_error() -> None:
    assert readable("") == ""
