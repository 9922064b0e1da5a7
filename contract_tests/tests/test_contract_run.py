"""How a run chooses, blocks, waives and judges, on small suites in place of the kit's own."""

from itertools import count

import attrs
import pytest

from power_contract.histories import REACHED, HistoryCounts
from power_contract.profiles import PROFILES
from power_contract.report import read_report, write_report
from power_contract.running import run_contract
from power_contract.subject import ContractSubject, Waiver
from power_contract.summary import summary_lines, table_lines

SUBJECT = ContractSubject(
    name="power-example",
    strategy="example",
    plugin="power_example.plugin",
    features=frozenset({"mutable-memory", "native"}),
    target_kinds=("hybrid", "attention"),
)
numbers = count()
HEAD = "import pytest\nfrom power_contract.clauses import clause, not_run_here\n\n"
REACHING = """
@clause("LIFE-09")
def test_histories(histories, target_kind):
    for accepted in (0, 1, 2):
        histories.add(target_kind, accepted_tokens=accepted, proposed_tokens=2, mutable=True)
    histories.add_comparison(target_kind, 2)
"""


@pytest.fixture
def run(tmp_path):
    """Run a suite of this text for a subject."""

    def run(text, subject=SUBJECT, **settings):
        suite = tmp_path / f"suite_{next(numbers)}"  # a module's name stays taken in this process
        suite.mkdir()
        (suite / f"test_in_{suite.name}.py").write_text(HEAD + text, encoding="utf-8")
        return run_contract(subject, quiet=True, suite=suite, **settings)

    return run


def a_test(clause_id, body, name="one", arguments=""):
    return f'@clause("{clause_id}")\ndef test_{name}({arguments}):\n    {body}\n\n'


def result(finished, clause_id):
    return next(each for each in finished.report.clauses if each.clause == clause_id)


def test_passed_and_failed(run):
    finished = run(a_test("INFO-01", "pass") + a_test("LIFE-01", "assert 1 == 2", "two"))
    assert result(finished, "INFO-01").result == "passed"
    failed = result(finished, "LIFE-01")
    assert (failed.result, failed.tests) == ("failed", 1)
    assert "assert 1 == 2" in failed.detail
    assert finished.status == 1
    assert finished.failed_clauses == ("LIFE-01",)
    assert not finished.report.passed


def test_a_clause_with_one_failing_test_failed(run):
    finished = run(a_test("LIFE-01", "pass") + a_test("LIFE-01", "assert 0", "two"))
    assert (result(finished, "LIFE-01").result, result(finished, "LIFE-01").tests) == ("failed", 2)


def test_a_clause_without_a_test_breaks_the_run(run):
    finished = run(a_test("INFO-01", "pass") + REACHING)
    assert result(finished, "LIFE-01").result == "no test"
    assert finished.status == 1


def test_what_is_not_declared_does_not_run(run):
    finished = run(a_test("ART-01", "assert 0"))
    assert (result(finished, "ART-01").result, result(finished, "ART-01").detail) == ("not declared", "model-backed")
    assert finished.failed_clauses == ()


def test_failures_block_what_depends_on_them(run):
    finished = run(a_test("INFO-03", "pass", "dependent") + a_test("INFO-01", "assert 0"))
    blocked = result(finished, "INFO-03")
    assert (blocked.result, blocked.detail) == ("blocked", "blocked by INFO-01")


def test_areas_run_in_order_whatever_the_file_says(run):
    finished = run(a_test("NUM-01", "pass", "a") + a_test("LIFE-02", "pass", "b") + a_test("INFO-01", "pass", "c"))
    ran = [each.clause for each in finished.report.clauses if each.result == "passed"]
    assert ran == ["INFO-01", "LIFE-02", "NUM-01"]


def test_not_run_here_is_said_with_the_reason(run):
    finished = run(a_test("LIFE-01", 'not_run_here("needs a GPU")'))
    assert (result(finished, "LIFE-01").result, result(finished, "LIFE-01").detail) == ("not run here", "needs a GPU")


def test_a_selection_leaves_the_others_out(run):
    text = a_test("INFO-01", "pass") + a_test("LIFE-01", "assert 0", "two")
    finished = run(text, clauses=("INFO-01",))
    assert result(finished, "INFO-01").result == "passed"
    assert result(finished, "LIFE-01").result == "not selected"
    assert not finished.report.whole


def test_what_a_stopped_run_did_not_reach_is_not_selected(run):
    text = a_test("INFO-01", "assert 0") + a_test("LIFE-02", "pass", "two")
    finished = run(text, arguments=("-x",))
    assert result(finished, "LIFE-02").result == "not selected"


WAIVED = attrs.evolve(SUBJECT, waivers=(Waiver(clause="LIFE-01", reason="known", link="#7"),))


def test_a_waived_clause_that_fails_is_forgiven(run):
    finished = run(a_test("LIFE-01", "assert 0"), WAIVED)
    assert (result(finished, "LIFE-01").result, result(finished, "LIFE-01").detail) == ("waived", "known (#7)")
    assert finished.failed_clauses == ()


def test_a_waived_clause_that_holds_breaks_the_run(run):
    finished = run(a_test("LIFE-01", "pass"), WAIVED)
    assert result(finished, "LIFE-01").result == "failed"
    assert "out of date" in result(finished, "LIFE-01").detail
    assert finished.status == 1


def test_a_waiver_of_an_unknown_clause_breaks_the_run(run):
    subject = attrs.evolve(SUBJECT, waivers=(Waiver(clause="LIFE-77", reason="known", link="#7"),))
    finished = run(a_test("INFO-01", "pass"), subject)
    assert "LIFE-77" in finished.report.problems[0]
    assert finished.status == 1


def test_histories_that_were_never_reached_break_the_run(run):
    unreached = run(a_test("INFO-01", "pass")).report
    assert len(unreached.problems) == 2 * len(REACHED)
    reached = run(REACHING, profile=PROFILES["contract"]).report
    assert reached.problems == ()
    assert all(count > 0 for kind in reached.histories.values() for count in kind.values())


def test_counts_of_histories():
    counts = HistoryCounts()
    for accepted, mutable in ((0, True), (1, False), (2, True)):
        counts.add("hybrid", accepted_tokens=accepted, proposed_tokens=2, mutable=mutable)
    counts.add("hybrid", accepted_tokens=0, proposed_tokens=0, mutable=True)
    for drafts in (0, 3):
        counts.add_comparison("hybrid", drafts)
    assert list(counts.table(("hybrid",))["hybrid"].values()) == [1, 1, 1, 1, 1]


def test_a_test_without_a_clause_is_refused(run):
    assert run("def test_one(): pass").status not in (0, 1)


def test_the_report_is_read_back_as_it_was(run, tmp_path):
    report, path = run(a_test("INFO-01", "pass")).report, tmp_path / "report.json"
    write_report(report, path)
    assert read_report(path) == report
    assert report.profile == "ci"
    assert report.seed == "derandomized"


def test_the_summary_names_what_did_not_pass(run):
    report = run(a_test("INFO-01", "pass") + a_test("LIFE-01", "assert 1 == 2", "two")).report
    text = "\n".join(summary_lines(report))
    assert "LIFE-01 failed: assert 1 == 2" in text
    assert "2 of" in text
    assert "contract BROKEN" in text
    table = list(table_lines([report, report]))
    assert table[0].split() == ["power-example", "power-example"]
    assert all("full" not in line for line in table)


def test_the_profile_is_in_force_inside_and_gone_afterwards(run):
    from hypothesis import settings

    before = settings.default.max_examples
    body = f"from hypothesis import settings; assert settings.default.max_examples == {PROFILES['contract'].examples}"
    finished = run(a_test("INFO-01", body), profile=PROFILES["contract"])
    assert result(finished, "INFO-01").result == "passed"
    assert settings.default.max_examples == before


def test_the_short_profile_deals_target_kinds_in_turn(run):
    text = "\n".join(a_test("LIFE-01", "pass", f"number_{number}", "target_kind") for number in range(5))
    assert result(run(text, profile=PROFILES["ci"]), "LIFE-01").tests == 5
    assert result(run(text, profile=PROFILES["contract"]), "LIFE-01").tests == 10


def test_the_short_profile_keeps_every_other_parameter(run):
    text = '@pytest.mark.parametrize("other", [1, 2, 3])\n' + a_test("LIFE-01", "pass", arguments="target_kind, other")
    assert result(run(text, profile=PROFILES["ci"]), "LIFE-01").tests == 3
