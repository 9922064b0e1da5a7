"""The published schemas: real outputs follow them, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from bench_fakes import chosen_report, fake_plan, fake_report
from core_sessions import drafts_with_acceptance, open_fake_session

from power_core import open_session
from power_core.bench.plan import Gates
from power_core.bench.synthetic import AcceptanceProfile
from power_core.report import DERIVED, Report
from power_core.schemas import bench_schema, generate_schema
from power_core.testing.fakes import ScriptedDrafter
from power_core.testing.models import default_target_path

GENERATE = jsonschema.Draft202012Validator(generate_schema())
BENCH = jsonschema.Draft202012Validator(bench_schema())
RATES = {"off": [[100.0] * 5], "mtp K=3": [[150.0] * 5]}


def as_json(values: dict[str, Any]) -> Any:
    return json.loads(json.dumps(values))


def fake_result() -> Any:
    drafter = ScriptedDrafter(drafts_with_acceptance(lambda limit: limit // 2))
    with open_fake_session(drafter, recurrent=True, snapshots=2, slice_rows=5, guard_rows=2) as session:
        return as_json(session.generate([1, 2, 3], max_tokens=40).result().to_dict())


@pytest.mark.parametrize("schema", [generate_schema(), bench_schema()], ids=["generate", "bench"])
def test_the_schemas_are_schemas(schema: dict[str, Any]):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_what_generate_prints_follows_its_schema():
    GENERATE.validate(fake_result())


@pytest.mark.native
def test_what_generate_prints_of_real_sessions_follows_its_schema():
    for spec in ("off", "mtp"):
        with open_session(model=default_target_path(), spec=spec, ctx=256, threads=1) as session:
            for logprobs in (None, 0, 2):
                result = session.generate("def f(n):", max_tokens=20, logprobs=logprobs).result()
                GENERATE.validate(as_json(result.to_dict()))
                assert ("logprobs" in result.to_dict()) is (logprobs is not None)


def test_what_bench_writes_follows_its_schema():
    BENCH.validate(as_json(fake_report(fake_plan(repeats=1)).to_dict()))
    BENCH.validate(as_json(chosen_report(RATES, gates=Gates(ratio=1.0)).to_dict()))
    profile = AcceptanceProfile(probabilities=(0.5, 0.5, 0.5))
    BENCH.validate(as_json(chosen_report(RATES, profile=profile).to_dict()))


@pytest.mark.parametrize("name", ["finish_reason", "tokens", "report"])
def test_a_missing_name_breaks_the_schema(name: str):
    values = fake_result()
    del values[name]
    assert not GENERATE.is_valid(values)


def test_further_names_and_wrong_values_break_the_schemas():
    assert not GENERATE.is_valid(fake_result() | {"extra": 1})
    assert not GENERATE.is_valid(fake_result() | {"finish_reason": "tired"})
    values = fake_result()
    values["report"]["accepted_prefix_histogram"] = {"many": 1}
    assert not GENERATE.is_valid(values)
    values = as_json(chosen_report(RATES).to_dict())
    values["samples"][0]["tokens"] = "11"
    assert not BENCH.is_valid(values)


def test_every_counter_is_described_in_the_words_of_its_class():
    report = generate_schema()["$defs"]["Report"]
    assert report["properties"]["replays"]["description"].startswith("Rounds whose rejected rows exceeded")
    assert (
        report["properties"]["acceptance_rate"]["description"] == "Accepted over drafted; 0 when nothing was drafted."
    )
    assert set(report["required"]) == set(Report(strategy="off").to_dict())
    assert set(DERIVED) <= set(report["properties"])
    sample = bench_schema()["$defs"]["Sample"]["properties"]
    assert sample["compute_ns"]["description"].endswith("the drafter's included where it tells.")
