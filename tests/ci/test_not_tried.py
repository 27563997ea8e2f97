"""What the end of a run says was not tried."""

from __future__ import annotations

from not_tried import MOST_LINES, lines


def test_what_ran_in_one_environment_was_tried() -> None:
    runs = [{"a": "", "b": "no GPU", "c": "no nvcc"}, {"a": "no torch", "b": "no GPU", "c": ""}]

    assert list(lines(runs)) == ["not tried on this machine, 1 of 3 tests:", "     1  no GPU"]
    assert list(lines(reversed(runs))) == list(lines(runs))


def test_where_everything_ran_it_says_so() -> None:
    assert list(lines([{"a": ""}])) == ["everything was tried on this machine"]


def test_reasons_are_counted_and_few_lines_say_them() -> None:
    said = list(lines([{f"test_{n}": f"reason {n % 20}" for n in range(30)}]))

    assert len(said) == MOST_LINES
    assert said[1] == "     2  reason 0"
    assert said[-1] == "     7  for 7 other reasons; pytest -rs lists them"
    assert sum(int(line.split()[0]) for line in said[1:]) == 30
