"""INFO: the handshake, what is registered, and whether the subject declares what the plugin has."""

from __future__ import annotations

import os
import subprocess
import sys

import attrs

from power_contract.assertions import check_equal, check_that
from power_contract.bench import Bench
from power_contract.clauses import clause
from power_contract.loading import load_subject, subject_plugins, subject_strategy
from power_contract.materials import headers
from power_contract.opening import LEAST, open_bench
from power_contract.subject import ContractSubject
from power_core.drafter import DraftRequest
from power_core.errors import PluginVersionError, PowerError
from power_core.plugins import API_VERSION
from power_core.plugins.manager import load_plugins
from power_core.target import ContextSettings
from power_core.testing.fakes import FakeModel
from power_core.tokens import TapRequest

LIGHT = ("power_core", "power_native")
PROBE = """
import importlib, sys
import power_core.plugins
before = set(sys.modules)
importlib.import_module(sys.argv[1])
print(*sorted(set(sys.modules) - before))
"""


@clause("INFO-01")
def test_the_plugin_loads_and_shakes_hands(subject: ContractSubject) -> None:
    record = load_subject(subject)
    check_that(record.error is None, "the plugin does not load", expected="no error", actual=record.traceback_text())
    served = record.api is not None and record.api[0] == API_VERSION[0] and record.api <= API_VERSION
    check_that(served, "the plugin's API", expected=f"one that API {API_VERSION} serves", actual=record.api)


@clause("INFO-02")
def test_the_plugin_module_is_light(subject: ContractSubject) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", PROBE, subject.plugin]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    check_equal("the exit status of an import, which printed " + done.stderr[-500:], done.returncode, 0)
    allowed = {subject.plugin.partition(".")[0], *LIGHT, *sys.stdlib_module_names}
    heavy = sorted({name.partition(".")[0] for name in done.stdout.split()} - allowed)
    check_equal(f"packages loaded by importing {subject.plugin} that are heavier than allowed", heavy, [])


@clause("INFO-03")
def test_the_strategy_is_registered_under_its_name_and_aliases(subject: ContractSubject) -> None:
    plugins, spec = subject_plugins(subject), subject_strategy(subject)
    for word in (spec.name, *spec.aliases):
        check_equal(f"the strategy that {word!r} leads to", plugins.strategy(word).name, spec.name)
    installed = [plugin for plugin in load_plugins().plugins if plugin.distribution != subject.name]
    others = {word for plugin in installed for each in plugin.strategy_specs for word in (each.name, *each.aliases)}
    check_equal(
        "names that another installed plugin claims too", others.intersection((spec.name, *spec.aliases)), set()
    )


@clause("INFO-04")
def test_the_declared_features_are_the_ones_it_has(subject: ContractSubject, target_kind: str) -> None:
    spec, files = subject_strategy(subject), headers(subject, target_kind)
    taps = spec.needs(*files).taps or TapRequest()
    with open_bench(subject, target_kind, p_min=0.0) as bench:
        memory = proposals_differ(bench)
    found = {
        "draft-file": spec.uses_draft_file,
        "model-backed": spec.model_backed,
        "taps": bool(taps.layers),
        "nextn-taps": taps.nextn,
        "confidence": spec.has_confidence(*files) and has_confidence(subject, target_kind),
        "mutable-memory": memory,
        "native": refuses_a_fake(subject, target_kind),
    }
    declared = {feature: feature in subject.features for feature in found}
    check_equal("the plugin's features", found, declared)


PATTERNS, REPEATS = ((7, 8, 9), (7, 8, 5)), 8


def proposals_differ(bench: Bench) -> bool:
    """Tell whether drafts after the same anchor depend on what was fed before."""
    drafts = []
    for pattern in PATTERNS:
        bench.feed_committed(pattern * (REPEATS - 1), pattern)
        drafts.append(list(bench.own.propose(a_request(bench)).tokens))
    return drafts[0] != drafts[1]


def has_confidence(subject: ContractSubject, target_kind: str) -> bool:
    """Tell whether drafts come with confidences when a threshold asks for them, whatever the subject declares."""
    try:
        with open_bench(subject, target_kind, p_min=LEAST) as bench:
            bench.feed_committed(PATTERNS[0] * (REPEATS - 1), PATTERNS[0])
            return bench.own.propose(a_request(bench)).confidence is not None
    except PowerError:
        return False


def a_request(bench: Bench) -> DraftRequest:
    """Ask for drafts after the pattern, whose next token is the anchor."""
    tokens = len(PATTERNS[0]) * REPEATS
    settings = bench.settings
    return DraftRequest(n_past=tokens, anchor=PATTERNS[0][0], limit_tokens=settings.draft_max, p_min=settings.p_min)


def refuses_a_fake(subject: ContractSubject, target_kind: str) -> bool:
    """Tell whether the factory refuses a target of another backend with a typed error."""
    with open_bench(subject, target_kind) as bench:
        model = FakeModel(n_vocab=bench.n_vocab)
        context = model.open_context(ContextSettings(ctx_tokens=64))
        try:
            subject_strategy(subject).create_drafter(
                attrs.evolve(bench.drafter_context(), target_model=model, target_context=context)
            ).close()
        except PowerError:
            return True
    return False


@clause("INFO-05")
def test_the_factory_refuses_another_major_version(subject: ContractSubject, target_kind: str) -> None:
    with open_bench(subject, target_kind) as bench:
        context = attrs.evolve(bench.drafter_context(), api_version=(API_VERSION[0] + 1, 0))
        answer: object = "it was carried out"
        try:
            subject_strategy(subject).create_drafter(context).close()
        except PowerError as error:
            answer = error
    expected = f"PluginVersionError that names {subject.name}"
    refused = isinstance(answer, PluginVersionError) and answer.distribution == subject.name
    check_that(refused, f"create_drafter() in a core of API {context.api_version}", expected=expected, actual=answer)


@clause("INFO-06")
def test_the_answers_about_files_are_steady(subject: ContractSubject, target_kind: str) -> None:
    spec, pair = subject_strategy(subject), headers(subject, target_kind)
    first, second = ((spec.refuse(*pair), spec.needs(*pair), spec.most_drafts(*pair)) for _ in range(2))
    check_equal("refusal, needs and most_drafts when asked again", second, first)
    most = first[2]
    check_that(
        most is None or (type(most) is int and most >= 1),
        "most_drafts is out of range",
        expected="None, or at least 1",
        actual=most,
    )
    default = spec.default_draft_max_tokens
    check_that(most is None or default <= most, "the strategy's own K", expected=f"at most {most}", actual=default)
