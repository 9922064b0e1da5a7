"""Charts: the right values, the mark of synthetic acceptance, text bars and PNG files."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest
from bench_fakes import chosen_report

from power_core.bench.charts import Chart, make_charts, to_text
from power_core.bench.drawing import draw_png
from power_core.bench.synthetic import AcceptanceProfile
from power_core.errors import ConfigError

RATES = {
    "off": [[100.0] * 5],
    "mtp K=3": [[150.0] * 5],
    "mtp K=5": [[200.0] * 5],
}
PNG = b"\x89PNG\r\n\x1a\n"


def charts(**changes: object) -> dict[str, Chart]:
    report = chosen_report(RATES, **changes)
    return {chart.title.partition(" [")[0]: chart for chart in make_charts({"a": report})}


def values(chart: Chart, label: str) -> list[tuple[int | str, float]]:
    (series,) = [series for series in chart.series if series.label == label]
    return [(point.at, point.value) for point in series.points]


def test_the_charts_show_what_the_report_says():
    found = charts()
    assert list(found) == [
        "Drafts accepted by position",
        "One target evaluation by its rows",
        "One round by its phases",
        "Decode rate",
        "Speed, plain decoding = 1",
    ]
    assert values(found["Drafts accepted by position"], "mtp K=3") == [(1, 1.0), (2, 0.0), (3, 0.0)]
    assert values(found["One target evaluation by its rows"], "target") == [
        (1, 0.001),
        (2, 0.002),
        (3, 0.003),
        (4, 0.004),
    ]
    assert values(found["One round by its phases"], "mtp, draft") == [(3, 0.02), (5, 0.02)]
    assert [at for at, _ in values(found["One round by its phases"], "off, verify")] == [0]
    assert values(found["Decode rate"], "off")[0][1] == pytest.approx(100.0)
    assert values(found["Speed, plain decoding = 1"], "mtp K=5")[0][1] == pytest.approx(2.0)


def test_reports_of_several_files_are_told_apart():
    report = chosen_report(RATES)
    labels = {series.label for series in make_charts({"a": report, "b": report})[0].series}
    assert labels == {"a: mtp K=3", "a: mtp K=5", "b: mtp K=3", "b: mtp K=5"}


def test_every_title_and_label_says_that_acceptance_was_synthetic():
    profile = AcceptanceProfile(probabilities=(0.5,) * 5)
    found = make_charts({"a": chosen_report(RATES, profile=profile)})
    assert all("synthetic acceptance 0.5, 0.5, 0.5, 0.5, 0.5 (seed 0)" in chart.title for chart in found)
    labels = {series.label for chart in found for series in chart.series if series.label.startswith("mtp")}
    assert all("(synthetic)" in label for label in labels)


def test_empty_charts_are_left_out():
    plain = make_charts({"a": chosen_report({"off": RATES["off"]}, row_costs=None)})
    assert [chart.title for chart in plain] == ["One round by its phases", "Decode rate"]


def test_text_bars_are_as_long_as_their_values():
    text = to_text(make_charts({"a": chosen_report(RATES)}))
    lines = text.split("Decode rate")[1].splitlines()[1:4]
    assert [line.count("#") for line in lines] == [20, 30, 40]
    assert text.isascii()


def test_a_png_is_drawn(tmp_path: Path):
    file = tmp_path / "speed.png"
    draw_png(make_charts({"a": chosen_report(RATES)}), file)
    assert file.read_bytes().startswith(PNG)


def test_a_png_that_cannot_be_written_is_the_users_mistake(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be written"):
        draw_png(make_charts({"a": chosen_report(RATES)}), tmp_path / "absent" / "speed.png")


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real_import = builtins.__import__

    def fail(name: str, *rest: object, **options: object) -> object:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(ConfigError) as caught:
        draw_png([], tmp_path / "speed.png")
    assert caught.value.code == "plot.missing"
    assert "power-core[plot]" in caught.value.hint
