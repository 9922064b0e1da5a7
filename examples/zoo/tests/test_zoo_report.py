"""Loops in outputs, and the report's run in small."""

import json

import pytest
from loops import LEAST_LOOP_TOKENS, new_tokens
from report import WIDTHS, main

from power_core.bench.files import read_report

NEW = list(range(100, 150))


@pytest.mark.parametrize("period", [1, 7, 32, 60])
def test_the_first_turn_of_a_loop_is_new_text(period):
    turn = list(range(period))
    loop = turn * (1 + max(1, -(-LEAST_LOOP_TOKENS // period)))
    assert new_tokens(NEW + loop) == len(NEW) + period
    assert new_tokens(NEW + loop + turn[: period // 2]) == len(NEW) + period
    assert new_tokens(loop) == period


def test_short_repetition_and_repetition_that_stops_are_no_loop():
    short = NEW + [1, 2] * (LEAST_LOOP_TOKENS // 2 - 1)
    assert new_tokens(short) == len(short)
    stopped = NEW + [1, 2] * LEAST_LOOP_TOKENS + [3]
    assert new_tokens(stopped) == len(stopped)
    once = [*NEW, *NEW[:-1]]
    assert new_tokens(once) == len(once)
    assert new_tokens([]) == 0


@pytest.mark.native
def test_the_report_measures_every_strategy(tmp_path, capsys):
    assert main(["--out", str(tmp_path), "--prompts", "1", "--tokens", "12", "--repeats", "1", "--threads", "1"]) == 0
    report = read_report(tmp_path / "report.json")
    names = ["off", *(f"{spec} K={width}" for spec, widths in WIDTHS.items() for width in widths)]
    assert [summary.variant for summary in report.summaries] == names
    assert [cost.rows for cost in report.row_costs.costs] == list(range(1, 17))
    table = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert all(f"| {name} | " in table for name in names)
    assert table in capsys.readouterr().out
    without_loops = json.loads((tmp_path / "without_loops.json").read_text(encoding="utf-8"))
    assert list(without_loops["variants"]) == names
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
