"""The JSON Schema of the report: it accepts what is written, refuses what is not a report, and knows every field."""

import json

import attrs
import jsonschema
import pytest

from power_contract.clauses import load_clauses
from power_contract.histories import REACHED
from power_contract.outcomes import RESULTS, ClauseOutcome
from power_contract.profiles import PROFILE_NAMES
from power_contract.report import TOOLS, ContractReport, SubjectFacts, read_report, schema_text, write_report
from power_contract.running import run_contract
from power_contract.subject import ContractSubject, Waiver
from power_core.errors import ConfigError

SCHEMA = json.loads(schema_text())
PARTS = {
    "": (ContractReport, SCHEMA),
    "subject": (SubjectFacts, SCHEMA["$defs"]["subject"]),
    "clause": (ClauseOutcome, SCHEMA["$defs"]["clause"]),
}
SUBJECT = ContractSubject(
    name="power-example",
    strategy="example",
    plugin="power_example.plugin",
    features=frozenset({"mutable-memory"}),
    target_kinds=("attention",),
    waivers=(Waiver(clause="LIFE-01", reason="known", link="#7"),),
)
SUITE = """
import pytest
from power_contract.clauses import clause, not_run_here

@clause("INFO-01")
def test_passed(): pass

@clause("LIFE-01")
def test_waived(): assert 0

@clause("NUM-01")
def test_failed(): assert 0

@clause("NUM-02")
def test_not_here(): not_run_here("needs a GPU")
"""


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Return a written report that has most results."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_of_the_schema.py").write_text(SUITE, encoding="utf-8")
    path = folder / "report.json"
    write_report(run_contract(SUBJECT, quiet=True, suite=folder).report, path)
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_written_report_validates(raw):
    jsonschema.validate(raw, SCHEMA)
    assert {"passed", "failed", "waived", "not declared", "not run here"} <= {each["result"] for each in raw["clauses"]}


@pytest.mark.parametrize("part", PARTS)
def test_the_schema_has_every_field_and_requires_it(part):
    kind, schema = PARTS[part]
    names = [field.name for field in attrs.fields(kind)]
    assert list(schema["properties"]) == names
    assert schema["required"] == names
    assert schema["additionalProperties"] is False


def test_the_schema_knows_what_the_values_may_be():
    properties = SCHEMA["properties"]
    assert properties["profile"]["enum"] == list(PROFILE_NAMES)
    assert properties["versions"]["required"] == ["python", *TOOLS]
    assert SCHEMA["$defs"]["clause"]["properties"]["result"]["enum"] == list(RESULTS)
    assert SCHEMA["$defs"]["reached"]["required"] == list(REACHED)
    assert properties["format"]["const"] == attrs.fields(ContractReport).format.default


BROKEN = {
    "a field that nobody knows": lambda raw: raw | {"extra": 1},
    "another format": lambda raw: raw | {"format": 2},
    "a number as text": lambda raw: raw | {"seconds": "3"},
    "a number where a truth value belongs": lambda raw: raw | {"whole": 1},
    "a profile that does not exist": lambda raw: raw | {"profile": "full"},
    "no clauses": lambda raw: {name: value for name, value in raw.items() if name != "clauses"},
    "a result that does not exist": lambda raw: raw | {"clauses": [{**raw["clauses"][0], "result": "fine"}]},
    "a subject without features": lambda raw: raw | {"subject": {**raw["subject"], "features": None}},
    "half a count": lambda raw: raw | {"histories": {"attention": dict.fromkeys(REACHED, 0.5)}},
}


@pytest.mark.parametrize("fault", BROKEN)
def test_schema_and_reader_refuse_the_same(raw, tmp_path, fault):
    broken = BROKEN[fault](raw)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(broken), encoding="utf-8")
    with pytest.raises(ConfigError, match="no contract report"):
        read_report(path)


def test_every_clause_has_an_outcome(raw):
    assert [each["clause"] for each in raw["clauses"]] == list(load_clauses())
