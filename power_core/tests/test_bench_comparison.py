"""Two reports: ratios with intervals, and every difference that makes them incomparable."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from bench_fakes import chosen_report

from power_core.bench.comparison import compare_reports
from power_core.bench.records import BenchReport, VariantRecord
from power_core.bench.synthetic import AcceptanceProfile
from power_core.cli.bench_view import format_comparison
from power_core.errors import ConfigError

RATES = {"off": [[100.0, 102.0, 98.0]] * 2, "mtp K=3": [[150.0, 153.0, 147.0]] * 2}
FASTER = {"off": [[200.0, 204.0, 196.0]] * 2, "mtp K=3": [[330.0, 336.6, 323.4]] * 2}
PROFILE = AcceptanceProfile(probabilities=(0.5, 0.5, 0.5))


def test_the_second_stands_over_the_first():
    comparison = compare_reports(chosen_report(RATES), chosen_report(FASTER))
    off, mtp = comparison.variants
    assert (off.variant, mtp.variant) == ("off", "mtp K=3")
    assert off.ratio == pytest.approx(2.0, rel=1e-6)
    assert off.to_off is off.to_off_interval is None
    assert mtp.ratio == pytest.approx(2.2, rel=1e-6)
    assert mtp.to_off == pytest.approx(1.1, rel=1e-6)  # what sped up both is left out
    assert mtp.interval is not None
    assert mtp.interval.low <= 2.2 <= mtp.interval.high
    assert mtp.to_off_interval is not None
    assert mtp.to_off_interval.low == pytest.approx(1.1, rel=1e-6)


def test_a_report_and_itself_agree():
    report = chosen_report(RATES)
    comparison = compare_reports(report, report)
    assert [variant.ratio for variant in comparison.variants] == [1.0, 1.0]
    assert comparison.changed == ()


def test_too_few_runs_give_no_interval():
    few = {name: [rates[0][:2]] for name, rates in RATES.items()}
    comparison = compare_reports(chosen_report(few), chosen_report(few))
    assert all(variant.interval is variant.to_off_interval is None for variant in comparison.variants)
    assert "-" in format_comparison(comparison)


def test_variants_of_one_report_alone_are_named():
    wide = {**RATES, "mtp K=5": RATES["mtp K=3"]}
    comparison = compare_reports(chosen_report(wide), chosen_report(RATES))
    assert comparison.only_first == ("mtp K=5",)
    assert compare_reports(chosen_report(RATES), chosen_report(wide)).only_second == ("mtp K=5",)
    assert "only in the first: mtp K=5\n" in format_comparison(comparison)


def test_software_may_change_and_is_named():
    second = chosen_report(RATES)
    environment = attrs.evolve(
        second.environment, packages={"power-core": "0.2.0", "power-new": "1.0"}, backend={"compiler": "c++ 13"}
    )
    comparison = compare_reports(chosen_report(RATES), attrs.evolve(second, environment=environment))
    assert comparison.changed == (
        ("power-core", "0.1.0", "0.2.0"),
        ("power-new", "-", "1.0"),
        ("compiler", "c++ 12", "c++ 13"),
    )
    assert "changed: compiler: c++ 12 -> c++ 13\n" in format_comparison(comparison)


def test_a_guarantee_that_changed_is_named():
    second = with_record(chosen_report(RATES), 1, guarantee="bit-identical(8)")
    comparison = compare_reports(chosen_report(RATES), second)
    assert comparison.changed == (("guarantee of mtp K=3", "target-authoritative", "bit-identical(8)"),)


def test_synthetic_reports_compare_among_themselves_and_say_so():
    synthetic = chosen_report(RATES, profile=PROFILE)
    text = format_comparison(compare_reports(synthetic, synthetic))
    assert text.startswith("synthetic acceptance 0.5, 0.5, 0.5 (seed 0)")
    assert "mtp K=3 (synthetic)" in text
    assert "off (synthetic)" not in text
    other = chosen_report(RATES, profile=AcceptanceProfile(probabilities=(0.5, 0.5, 0.5), seed=1))
    for first, second in ((synthetic, chosen_report(RATES)), (chosen_report(RATES), synthetic), (synthetic, other)):
        with pytest.raises(ConfigError, match="synthetic acceptance"):
            compare_reports(first, second)


def with_record(report: BenchReport, index: int, **changes: object) -> BenchReport:
    records: list[VariantRecord] = list(report.variants)
    records[index] = attrs.evolve(records[index], **changes)
    return attrs.evolve(report, variants=tuple(records))


DIFFERENCES: dict[str, Callable[[BenchReport], BenchReport]] = {
    "target SHA-256": lambda report: attrs.evolve(report, target=attrs.evolve(report.target, sha256="0")),
    "repeats": lambda report: attrs.evolve(report, workload=attrs.evolve(report.workload, repeats=9)),
    "max_tokens": lambda report: attrs.evolve(report, workload=attrs.evolve(report.workload, max_tokens=9)),
    "sampling": lambda report: attrs.evolve(report, workload=attrs.evolve(report.workload, sampling={"seed": 1})),
    "number of prompts": lambda report: attrs.evolve(report, prompts=report.prompts[:1]),
    "tokens of prompt 'prompt 1'": lambda report: attrs.evolve(
        report, prompts=(report.prompts[0], attrs.evolve(report.prompts[1], tokens_sha256="0"))
    ),
    "output of off for prompt 'prompt 1'": lambda report: attrs.evolve(
        report, prompts=(report.prompts[0], attrs.evolve(report.prompts[1], output_sha256="0"))
    ),
    "cpu": lambda report: attrs.evolve(report, environment=attrs.evolve(report.environment, cpu="another")),
    "cores": lambda report: attrs.evolve(report, environment=attrs.evolve(report.environment, cores=64)),
    "threads of off": lambda report: with_record(report, 0, settings={**report.variants[0].settings, "threads": 1}),
    "draft SHA-256 of mtp K=3": lambda report: with_record(
        report, 1, draft=attrs.evolve(report.variants[1].draft, sha256="0")
    ),
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_what_measured_something_else_is_not_compared(what: str):
    report = chosen_report(RATES)
    with pytest.raises(ConfigError) as caught:
        compare_reports(report, DIFFERENCES[what](report))
    assert caught.value.code == "bench.incomparable"
    assert f"cannot be compared: {what} is " in str(caught.value)
