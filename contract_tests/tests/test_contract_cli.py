"""The program: what it prints, what it hands to pytest, and its exit status."""

import json

import pytest

from power_contract import cli
from power_contract.clauses import load_clauses
from power_contract.profiles import PROFILES
from power_contract.report import read_report, schema_text
from power_contract.running import run_contract
from power_contract.subject import ContractSubject

SUBJECT = ContractSubject(
    name="power-example",
    strategy="example",
    plugin="power_example.plugin",
    features=frozenset(),
    target_kinds=("attention",),
)


@pytest.fixture
def orders(monkeypatch, tmp_path):
    """Record what is run, and run an empty suite instead."""
    found = []

    def record(subject, **order):
        found.append((subject, order))
        return run_contract(subject, quiet=True, suite=tmp_path)

    monkeypatch.setattr(cli, "run_contract", record)
    monkeypatch.setattr(cli, "find_subject", lambda word: SUBJECT)
    return found


def test_list_names_every_clause(capsys):
    assert cli.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(load_clauses())


def test_list_of_one_area(capsys):
    assert cli.main(["list", "txn"]) == 0
    assert {line.split("-")[0] for line in capsys.readouterr().out.splitlines()} == {"TXN"}


def test_explain(capsys):
    assert cli.main(["explain", "life-01"]) == 0
    text = capsys.readouterr().out
    found = load_clauses()["LIFE-01"]
    assert all(word in text for word in (found.id, found.text, found.source, found.look, *found.blocked_by))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "TXN-99"], "no clause 'TXN-99'"),
        (["list", "none"], "no area 'none'"),
        (["run", "nothing"], "no contract subject 'nothing'"),
        (["run", "power_contract:load_clauses"], "it is a dict, expected a ContractSubject"),
        (["run", "power_contract.nowhere:SUBJECT"], "No module named 'power_contract.nowhere'"),
        (["run", "one", "two", "--report", "r.json"], "--report is for one subject"),
        (["run", "one", "--profile", "full"], "no profile 'full'"),
        (["run"], "Missing argument"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_mistakes_of_the_user(capsys, arguments, message):
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_schema_prints_the_schema_of_the_report(capsys):
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(schema_text())


def test_run_hands_its_options_to_pytest(orders):
    assert cli.main(["run", "one", "-k", "TXN-04 or LIFE", "-x", "--profile", "ci"]) == 1
    ((subject, order),) = orders
    assert subject is SUBJECT
    assert order == {"profile": PROFILES["ci"], "word": "one", "arguments": ["-k", "TXN-04 or LIFE", "-x"]}


def test_explore_has_a_seed(orders):
    cli.main(["run", "one", "--profile", "explore", "--seed", "7"])
    cli.main(["run", "one", "--profile", "explore"])
    given, drawn = (order["arguments"] for _, order in orders)
    assert given == ["--hypothesis-seed=7"]
    assert drawn[0].startswith("--hypothesis-seed=")
    assert drawn != given


def test_run_of_several_subjects_ends_in_one_table(orders, capsys):
    assert cli.main(["run", "one", "two"]) == 1
    assert [order["word"] for _, order in orders] == ["one", "two"]
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.split() == ["power-example", "power-example"] for line in lines) == 1


def test_run_writes_the_report(orders, tmp_path):
    path = tmp_path / "report.json"
    cli.main(["run", "one", "--report", str(path)])
    assert read_report(path).subject.name == "power-example"
