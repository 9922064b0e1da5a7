"""Reports: what a reader may rely on, files, gates, and every rule that refuses a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from bench_fakes import chosen_report, fake_report

from power_core.bench.files import read_report, write_report
from power_core.bench.plan import Gates
from power_core.bench.records import BenchReport
from power_core.bench.synthetic import AcceptanceProfile
from power_core.bench.validity import require_valid_report
from power_core.errors import BenchError, ConfigError, PowerError

RATES = {
    "off": [[100.0, 110.0, 90.0], [50.0, 55.0, 45.0]],
    "mtp K=3": [[150.0, 154.0, 144.0], [80.0, 77.0, 81.0]],
}


# ------------------------------------------------------------------------------------------------------------ figures


def test_ratios_are_taken_pair_by_pair():
    ratio = chosen_report(RATES).summary_of("mtp K=3").ratio
    assert ratio is not None
    assert ratio.pairs == 6
    assert ratio.median == pytest.approx((1.5 + 1.6) / 2, rel=1e-6)  # 1.4, 1.4, 1.5, 1.6, 1.6, 1.8
    assert ratio.minimum == pytest.approx(1.4, rel=1e-6)
    assert ratio.of_medians == pytest.approx(112.5 / 72.5, rel=1e-6)
    assert ratio.low is not None
    assert ratio.high is not None
    assert 1.4 <= ratio.low <= ratio.median <= ratio.high <= 1.8 + 1e-6


def test_too_few_pairs_give_no_interval():
    few = {name: [rates[0][:2], rates[1][:2]] for name, rates in RATES.items()}
    ratio = chosen_report(few).summary_of("mtp K=3").ratio
    assert ratio is not None
    assert (ratio.low, ratio.high, ratio.pairs) == (None, None, 4)


def test_acceptance_passes_and_phases_are_sums_over_samples():
    summary = chosen_report(RATES).summary_of("mtp K=3")
    assert (summary.rounds, summary.drafted_tokens, summary.accepted_tokens) == (30, 90, 30)
    assert summary.acceptance_rate == pytest.approx(1 / 3)
    assert summary.tokens_per_target_pass == pytest.approx(2.0)
    assert summary.accepted_by_position == (1.0, 0.0, 0.0)
    assert summary.phases_ns["prefill"] == 6_000_000
    assert summary.peak_bytes == 5_000_000
    plain = chosen_report(RATES).summary_of("off")
    assert (plain.acceptance_rate, plain.accepted_by_position, plain.ratio) == (0.0, (), None)


def test_the_own_cost_of_a_round_is_what_the_backend_did_not_compute():
    report = chosen_report(RATES)
    samples = report.samples_of("off")
    own_ns = sum(sample.last_token_ns - sample.first_token_ns - sample.compute_ns for sample in samples)
    assert report.summary_of("off").own_ns_per_round == pytest.approx(own_ns / 60)


# -------------------------------------------------------------------------------------------------------------- gates


@pytest.mark.parametrize(
    ("gates", "passed"),
    [
        (Gates(), True),
        (Gates(rate=112.0, each_rate=76.9, ratio=1.4, each_ratio=1.399), True),
        (Gates(rate=113.0), False),
        (Gates(each_rate=77.1), False),
        (Gates(ratio=1.9), False),
        (Gates(each_ratio=1.41), False),
    ],
)
def test_gates_judge_the_median_and_every_sample(gates: Gates, passed: bool):
    report = chosen_report(RATES, gates=gates)
    assert report.passed is passed
    assert len(report.gates) == 1 + sum(value is not None for value in attrs.asdict(gates).values())
    assert report.gates[0].gate == "equal_to_off"


# -------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("profile", [None, AcceptanceProfile(probabilities=(0.5, 0.25), seed=2)])
def test_a_report_comes_back_from_its_file(tmp_path: Path, profile: AcceptanceProfile | None):
    report = chosen_report(RATES, gates=Gates(ratio=1.0), profile=profile)
    file = tmp_path / "report.json"
    write_report(report, file)
    assert read_report(file) == report
    assert list(tmp_path.iterdir()) == [file]


def test_an_interrupted_write_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "report.json"
    write_report(chosen_report(RATES), file)
    before = file.read_bytes()

    def interrupt(report: BenchReport) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("power_core.bench.files.to_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_report(chosen_report(RATES, gates=Gates(ratio=1.0)), file)
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_bytes() == before


def test_what_is_no_number_never_becomes_json(tmp_path: Path):
    report = with_sample(chosen_report(RATES), decode_tokens_per_second=float("nan"))
    with pytest.raises(PowerError, match="JSON compliant"):
        write_report(report, tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_real_runs_comes_back_from_its_file(tmp_path: Path):
    report = fake_report()
    write_report(report, tmp_path / "report.json")
    again = read_report(tmp_path / "report.json")
    assert json.dumps(again.to_dict()) == json.dumps(report.to_dict())


def test_a_file_that_cannot_be_written_is_the_users_mistake(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be written"):
        write_report(chosen_report(RATES), tmp_path / "absent" / "report.json")


@pytest.mark.parametrize(
    "content", ["", "[1]", "{}", '{"schema": "power.bench.v0"}', '{"schema": "power.bench.v1"}', "[" * 9999]
)
def test_other_files_are_no_reports(tmp_path: Path, content: str):
    file = tmp_path / "report.json"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_report(file)
    assert caught.value.code == "bench.file"


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a text for a number": lambda values: values["samples"][0].update(tokens="11"),
    "a number for a text": lambda values: values["target"].update(sha256=5),
    "a fraction for a whole number": lambda values: values["samples"][0].update(rounds=1.5),
    "a boolean for a number": lambda values: values["samples"][0].update(rounds=True),
    "nothing for a number": lambda values: values["workload"].update(repeats=None),
    "a missing name": lambda values: values["samples"][0].pop("rounds"),
    "a further name": lambda values: values["samples"][0].update(extra=1),
    "a histogram of words": lambda values: values["samples"][0].update(drafted_histogram={"x": 1}),
    "an unknown gate": lambda values: values["gates"][0].update(gate="best"),
    "an impossible profile": lambda values: values.update(synthetic={"probabilities": [2.0], "seed": 0}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_report_that_breaks_the_schema_is_refused(tmp_path: Path, name: str):
    values = json.loads(json.dumps(chosen_report(RATES).to_dict()))
    CHANGES[name](values)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(values))
    with pytest.raises(ConfigError) as caught:
        read_report(file)
    assert caught.value.code == "bench.file"


# ----------------------------------------------------------------------------------------------------------- validity


def with_sample(report: BenchReport, **changes: object) -> BenchReport:
    return attrs.evolve(report, samples=(attrs.evolve(report.samples[0], **changes), *report.samples[1:]))


def with_summary(report: BenchReport, **changes: object) -> BenchReport:
    return attrs.evolve(report, summaries=(attrs.evolve(report.summaries[0], **changes), *report.summaries[1:]))


def with_ratio(report: BenchReport, **changes: object) -> BenchReport:
    ratio = attrs.evolve(report.summaries[1].ratio, **changes)
    return attrs.evolve(report, summaries=(report.summaries[0], attrs.evolve(report.summaries[1], ratio=ratio)))


TAMPERED: dict[str, tuple[str, Callable[[BenchReport], BenchReport]]] = {
    "a missing run": ("pairing", lambda report: attrs.evolve(report, samples=report.samples[1:])),
    "a run twice": ("pairing", lambda report: attrs.evolve(report, samples=(*report.samples, report.samples[0]))),
    "a foreign run": ("pairing", lambda report: with_sample(report, variant="dspark")),
    "a run of another prompt": ("pairing", lambda report: with_sample(report, prompt="prompt 9")),
    "no plain decoding": ("pairing", lambda report: attrs.evolve(report, variants=report.variants[1:])),
    "more accepted drafts": ("counters", lambda report: with_sample(report, accepted_tokens=3)),
    "a lost round": ("counters", lambda report: with_sample(report, drafted_histogram={0: 9})),
    "a cheaper row": (
        "row_costs",
        lambda report: attrs.evolve(
            report,
            row_costs=attrs.evolve(
                report.row_costs, costs=tuple(attrs.evolve(cost, median_ns=1) for cost in report.row_costs.costs)
            ),
        ),
    ),
    "too few tokens": ("tokens", lambda report: with_sample(report, tokens=10)),
    "a last token before the first": ("times", lambda report: with_sample(report, last_token_ns=1000)),
    "a first token at once": ("times", lambda report: with_sample(report, first_token_ns=0)),
    "a result before the last token": ("times", lambda report: with_sample(report, total_ns=2_000_000)),
    "a faster rate": ("rates", lambda report: with_sample(report, decode_tokens_per_second=101.0)),
    "a faster end-to-end rate": ("rates", lambda report: with_sample(report, end_to_end_tokens_per_second=500.0)),
    "another output in one repeat": ("not_repeatable", lambda report: with_sample(report, output_sha256="other")),
    "another output of a prompt": (
        "outputs",
        lambda report: attrs.evolve(
            report, prompts=(attrs.evolve(report.prompts[0], output_sha256="other"), *report.prompts[1:])
        ),
    ),
    "a better median": ("summaries", lambda report: with_summary(report, median_decode_tokens_per_second=99.0)),
    "a better acceptance": ("summaries", lambda report: with_summary(report, acceptance_rate=1.0)),
    "a better interval": ("summaries", lambda report: with_ratio(report, high=9.0)),
    "a lower gate": ("gates", lambda report: attrs.evolve(report, required=Gates(ratio=0.5))),
    "a gate left out": ("gates", lambda report: attrs.evolve(report, gates=report.gates[1:])),
    "a verdict": ("gates", lambda report: attrs.evolve(report, passed=False)),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_report_whose_figures_do_not_follow_from_its_samples_is_refused(name: str):
    rule, tamper = TAMPERED[name]
    report = chosen_report(RATES, gates=Gates(ratio=1.0))
    require_valid_report(report)
    with pytest.raises(BenchError) as caught:
        require_valid_report(tamper(report))
    assert caught.value.rule == rule
