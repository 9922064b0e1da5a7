"""``power bench``, ``compare``, ``plot`` and ``schema``: what is printed, written and refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import jsonschema
import pytest
from bench_fakes import chosen_report
from cli_inputs import Run

from power_core.bench.files import read_report, write_report
from power_core.bench.plan import BenchPlan, Gates
from power_core.bench.records import BenchReport
from power_core.bench.runner import run_bench
from power_core.bench.synthetic import AcceptanceProfile
from power_core.errors import Cancelled
from power_core.schemas import bench_schema
from power_core.testing.models import default_target_path

ROOT = Path(__file__).parents[2]
RATES = {"off": [[100.0] * 5], "mtp K=3": [[150.0] * 5]}
PROMPT = ("--prompt", "def f(n):")


class FakeBench:
    """Takes the place of the runner: remembers the plan and answers with a report."""

    def __init__(self, report: BenchReport) -> None:
        self.report = report
        self.plans: list[BenchPlan] = []
        self.error: BaseException | None = None

    def __call__(self, plan: BenchPlan, **options: Any) -> BenchReport:
        self.plans.append(plan)
        options["progress"]("bench", 0, 10)
        with options["guard"](lambda: None):
            if self.error is not None:
                raise self.error
        return self.report

    @property
    def plan(self) -> BenchPlan:
        (plan,) = self.plans
        return plan


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    bench = FakeBench(chosen_report(RATES))
    monkeypatch.setattr("power_core.cli.bench.run_bench", bench)
    return bench


# -------------------------------------------------------------------------------------------------------------- bench


def test_the_table_has_one_line_per_variant(run: Run, fake: FakeBench):
    outcome = run("bench", "--spec", "mtp", "--draft-max", "3", *PROMPT)
    assert (outcome.status, outcome.err) == (0, "")
    header, off, mtp = [line for line in outcome.out.splitlines() if line.startswith(("VARIANT", "off", "mtp"))]
    assert header.split()[:3] == ["VARIANT", "TOK/S", "LEAST"]
    assert off.split()[:4] == ["off", "100.0", "100.0", "1"]
    assert mtp.split()[:5] == ["mtp", "K=3", "150.0", "150.0", "1.500"]
    assert "1 of 1 gates passed" in outcome.out


def test_lists_become_variants_and_flags_settings(run: Run, fake: FakeBench):
    flags = ("--max-tokens", "32", "--threads", "2", "--temperature", "0.5", "--ctx", "256")
    more = ("--repeats", "7", "--warmups", "0", "--sessions", "in-turn", "--row-costs", "--chat")
    gates = ("--gate-rate", "5", "--gate-each-rate", "4", "--gate-ratio", "1.1", "--gate-each-ratio", "0.9")
    assert run("bench", "--spec", "off,mtp,lookup", "--draft-max", "1,3", *flags, *more, *gates, *PROMPT).status == 0
    plan = fake.plan
    names = [variant.name for variant in plan.variants]
    assert names == ["off", "mtp K=1", "mtp K=3", "prompt-lookup K=1", "prompt-lookup K=3"]
    assert {(variant.settings.threads, variant.settings.ctx) for variant in plan.variants} == {(2, 256)}
    assert (plan.request.max_tokens, plan.request.sampling.temperature) == (32, 0.5)
    assert (plan.repeats, plan.warmups, plan.sessions, plan.row_costs, plan.chat) == (7, 0, "in-turn", True, True)
    assert plan.gates == Gates(rate=5.0, each_rate=4.0, ratio=1.1, each_ratio=0.9)


def test_a_file_of_settings_gives_what_flags_do_not(run: Run, fake: FakeBench, tmp_path: Path):
    config = tmp_path / "power.toml"
    config.write_text('spec_mode = "mtp"\nspec_draft_max = 2\nnum_thread = 1\n')
    assert run("bench", "--config", str(config), *PROMPT).status == 0
    assert [variant.name for variant in fake.plan.variants] == ["off", "mtp K=2"]
    assert fake.plan.variants[1].settings.threads == 1


def test_drafts_are_one_file_or_one_per_strategy(run: Run, fake: FakeBench):
    assert run("bench", "--spec", "dflash,dspark", "--draft", "a.gguf", *PROMPT).status == 0
    assert [variant.settings.draft for variant in fake.plan.variants] == [None, Path("a.gguf"), Path("a.gguf")]
    fake.plans.clear()
    assert run("bench", "--spec", "dflash,dspark", "--draft", "dflash=a.gguf,dspark=b.gguf", *PROMPT).status == 0
    assert [variant.settings.draft for variant in fake.plan.variants] == [None, Path("a.gguf"), Path("b.gguf")]


def test_sessions_are_in_turn_where_layers_are_on_a_device(run: Run, fake: FakeBench):
    assert run("bench", "--spec", "mtp", *PROMPT).status == 0
    assert run("bench", "--spec", "mtp", "--gpu-layers", "-1", *PROMPT).status == 0
    assert [plan.sessions for plan in fake.plans] == ["together", "in-turn"]


def test_prompts_come_from_a_set(run: Run, fake: FakeBench, tmp_path: Path):
    file = tmp_path / "prompts.json"
    file.write_text('[{"name": "a", "text": "x"}, {"name": "b", "text": "y"}]')
    assert run("bench", "--spec", "mtp", "--prompts", str(file)).status == 0
    assert [prompt.name for prompt in fake.plan.prompts] == ["a", "b"]


def test_the_report_goes_to_a_file_or_to_standard_output(run: Run, fake: FakeBench, tmp_path: Path):
    file = tmp_path / "report.json"
    assert run("bench", "--spec", "mtp", "--json", str(file), *PROMPT).out.startswith("target ")
    assert read_report(file) == fake.report
    assert json.loads(run("bench", "--spec", "mtp", "--json", "-", *PROMPT).out)["schema"] == "power.bench.v1"


def test_a_failed_gate_is_status_1_and_the_report_stays(run: Run, fake: FakeBench, tmp_path: Path):
    fake.report = chosen_report(RATES, gates=Gates(ratio=2.0))
    file = tmp_path / "report.json"
    outcome = run("bench", "--spec", "mtp", "--json", str(file), *PROMPT)
    assert outcome.status == 1
    assert "gate failed: mtp K=3: ratio is 1.5, expected at least 2\n" in outcome.out
    assert not read_report(file).passed


def test_synthetic_acceptance_is_marked_in_the_table(run: Run, fake: FakeBench):
    profile = AcceptanceProfile(probabilities=(0.9, 0.8, 0.7), seed=4)
    fake.report = chosen_report(RATES, profile=profile)
    arguments = ("--synthetic-acceptance", "0.9,0.8,0.7", "--synthetic-seed", "4")
    outcome = run("bench", "--spec", "mtp", "--draft-max", "3", *arguments, *PROMPT)
    assert fake.plan.profile == profile
    assert outcome.out.startswith("synthetic acceptance 0.9, 0.8, 0.7 (seed 4): no drafter's own acceptance")
    assert "\nmtp K=3 (synthetic) " in outcome.out
    assert "\noff (synthetic)" not in outcome.out


def test_generate_has_no_synthetic_acceptance(run: Run):
    run("generate", "--synthetic-acceptance", "0.9", *PROMPT).require_one_line_error("config.usage")


def test_a_busy_machine_is_named(run: Run, fake: FakeBench):
    environment = attrs.evolve(fake.report.environment, load_before=(3.5, 1.0, 1.0))
    fake.report = attrs.evolve(fake.report, environment=environment)
    assert "load 3.50 before the start: other work was running" in run("bench", "--spec", "mtp", *PROMPT).out


def test_what_was_chosen_by_default_is_named(run: Run, fake: FakeBench):
    event = {"event": "default_target", "round": 0, "detail": "its text means nothing"}
    variants = tuple(attrs.evolve(variant, events=(event,)) for variant in fake.report.variants)
    fake.report = attrs.evolve(fake.report, variants=variants)
    assert run("bench", "--spec", "mtp", *PROMPT).out.count("note: its text means nothing\n") == 1


def test_an_interrupt_leaves_no_report(run: Run, fake: FakeBench, tmp_path: Path):
    fake.error = Cancelled()
    file = tmp_path / "report.json"
    outcome = run("bench", "--spec", "mtp", "--json", str(file), *PROMPT)
    assert (outcome.status, outcome.out) == (130, "")
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--spec", "auto", *PROMPT), "config.invalid"),
        (("--spec", "nonsense", *PROMPT), "config.invalid"),
        (("--spec", "mtp"), "config.usage"),
        (("--spec", "off", "--synthetic-acceptance", "0.5", *PROMPT), "config.invalid"),
        (("--spec", "mtp", *PROMPT, "--prompt-file", "x.txt"), "config.usage"),
        (("--spec", "mtp", *PROMPT, "--prompts", "x.json"), "config.usage"),
        (("--spec", "mtp", "--prompts", "absent.json"), "config.prompt"),
        (("--spec", "mtp", "--draft-max", "1,two", *PROMPT), "config.usage"),
        (("--spec", "mtp", "--draft-max", "0", *PROMPT), "config.invalid"),
        (("--spec", "mtp", "--draft", "a,b", *PROMPT), "config.usage"),
        (("--spec", "mtp", "--draft", "mtp=a.gguf", *PROMPT), "config.invalid"),
        (("--spec", "mtp", "--repeats", "0", *PROMPT), "config.invalid"),
        (("--spec", "mtp", "--sessions", "never", *PROMPT), "config.invalid"),
        (("--spec", "mtp", "--stop", "x", *PROMPT), "config.invalid"),
        (("--spec", "mtp", "--gate-rate", "0", *PROMPT), "config.invalid"),
        (("--spec", "mtp", "--synthetic-acceptance", "2", *PROMPT), "config.invalid"),
        (("--spec", "mtp", "--json", "absent/report.json", *PROMPT), "config.usage"),
    ],
)
def test_mistakes_are_one_line_and_status_2(run: Run, fake: FakeBench, arguments: tuple[str, ...], code: str):
    run("bench", *arguments).require_one_line_error(code)
    assert fake.plans == []


@pytest.mark.native
def test_the_python_of_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    source = (ROOT / "docs" / "benchmarking.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]

    def run_less(plan: BenchPlan, **options: Any) -> BenchReport:
        request = attrs.evolve(plan.request, max_tokens=8)
        return run_bench(attrs.evolve(plan, request=request, repeats=1, warmups=0), **options)

    monkeypatch.setattr("power_core.bench.runner.run_bench", run_less)
    exec(compile(source, "docs/benchmarking.md", "exec"), {})
    assert capsys.readouterr().out.startswith("Ratio(pairs=1, ")


@pytest.mark.native
def test_a_real_bench_runs_compares_and_plots(run: Run, tmp_path: Path):
    model = str(default_target_path())
    common = ("--model", model, "--ctx", "256", "--threads", "1", "--max-tokens", "12", "--repeats", "2", *PROMPT)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for file in (first, second):
        arguments = ("--spec", "mtp,prompt-lookup", "--draft-max", "1,2", "--row-costs", "--json", str(file))
        assert run("bench", *arguments, *common).status == 0
    values = json.loads(first.read_text())
    jsonschema.Draft202012Validator(bench_schema()).validate(values)
    assert str(Path(model).parent) not in first.read_text()
    assert {summary["prompts_equal_to_off"] for summary in values["summaries"]} == {1}
    assert [cost["rows"] for cost in values["row_costs"]["costs"]] == [1, 2, 3]
    assert run("compare", str(first), str(second)).status == 0
    assert "Drafts accepted by position" in run("plot", str(first), str(second)).out
    wrong = run(
        "bench", "--spec", "mtp", "--draft-max", "3", "--synthetic-acceptance", "1,0.5,0.5", *common[:-4], *PROMPT
    )
    assert wrong.status == 0
    assert "mtp K=3 (synthetic)" in wrong.out


# ------------------------------------------------------------------------------------------- compare, plot and schema


@pytest.fixture
def report_file(tmp_path: Path) -> Path:
    file = tmp_path / "report.json"
    write_report(chosen_report(RATES), file)
    return file


def test_compare_prints_a_table_or_json(run: Run, report_file: Path):
    table = run("compare", str(report_file), str(report_file))
    assert table.status == 0
    assert "mtp K=3" in table.out
    values = json.loads(run("compare", str(report_file), str(report_file), "--json").out)
    assert [variant["ratio"] for variant in values["variants"]] == [1.0, 1.0]


def test_what_cannot_be_compared_is_status_2(run: Run, report_file: Path, tmp_path: Path):
    other = tmp_path / "other.json"
    write_report(chosen_report({name: [rates[0][:4]] for name, rates in RATES.items()}), other)
    run("compare", str(report_file), str(other)).require_one_line_error("bench.incomparable")
    run("compare", str(report_file), "absent.json").require_one_line_error("bench.file")


def test_a_tampered_report_is_status_1(run: Run, report_file: Path):
    values = json.loads(report_file.read_text())
    values["summaries"][0]["median_decode_tokens_per_second"] = 999.0
    report_file.write_text(json.dumps(values))
    run("compare", str(report_file), str(report_file)).require_one_line_error("bench.invalid", status=1)


def test_plot_prints_bars_or_draws_a_png(run: Run, report_file: Path, tmp_path: Path):
    assert "Speed, plain decoding = 1" in run("plot", str(report_file)).out
    png = tmp_path / "speed.png"
    assert run("plot", str(report_file), "--png", str(png)).out == f"{png}\n"
    assert png.stat().st_size > 0


def test_plot_tells_files_apart_by_their_names(run: Run, report_file: Path):
    run("plot", str(report_file), str(report_file)).require_one_line_error("config.usage")


@pytest.mark.parametrize("name", ["generate", "bench"])
def test_schemas_are_printed(run: Run, name: str):
    schema = json.loads(run("schema", name).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith(f"What power {name}")


def test_an_unknown_schema_is_one_line(run: Run):
    run("schema", "nonsense").require_one_line_error("config.usage")


def test_the_program_starts_without_benchmarks_and_plots():
    probe = (
        "import sys; from power_core.cli import main; main(['bench', '--help']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert not set(done.stderr.split()) & {"matplotlib", "power_core.bench", "power_core.schemas"}
