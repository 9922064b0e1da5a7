"""The parts that the histories stand on: scripts, spies, the oracle, failure texts."""

import pytest

from power_contract.assertions import ClauseBroken, check_equal
from power_contract.machines import HistoryMachine
from power_contract.oracle import Oracle, probed_logits, replay
from power_contract.sampling import CountingSampler
from power_contract.scripted import AcceptanceScript, ScriptedDrafter
from power_contract.spy import Call, InjectedError, Journal, Spy
from power_core.drafter import DraftRequest
from power_core.target import ContextSettings
from power_core.testing.fakes import FakeModel, plain_decode
from power_core.testing.fakes import ScriptedDrafter as PlainDrafter

N_VOCAB = 97
PROMPT = (3, 4, 5, 3, 4)


def fake_context(recurrent=True):
    settings = ContextSettings(ctx_tokens=64, batch_rows=4, snapshots=4)
    return FakeModel(n_vocab=N_VOCAB, recurrent=recurrent).open_context(settings)


def truth(prompt, count):
    return plain_decode(prompt, count, N_VOCAB)


def request(generated, limit=4):
    history = [*PROMPT, *truth(PROMPT, generated)]
    return DraftRequest(n_past=len(history) - 1, anchor=history[-1], limit_tokens=limit)


@pytest.mark.parametrize("right", range(5))
def test_a_script_is_right_for_so_many_tokens_and_wrong_from_there(right):
    script = AcceptanceScript(truth, lambda request: right, N_VOCAB)
    script.begin(PROMPT, 0)
    drafts = script.drafts(request(3))
    following = truth(PROMPT, 7)[3:]
    assert [draft == token for draft, token in zip(drafts, following, strict=True)] == [True] * right + [False] * (
        4 - right
    )


def test_a_script_may_keep_the_own_drafts_or_give_tokens():
    plans = iter([None, (1, 2)])
    script = AcceptanceScript(truth, lambda request: next(plans), N_VOCAB)
    script.begin(PROMPT, 0)
    assert script.drafts(request(1)) is None
    assert script.drafts(request(1)) == [1, 2]


def test_the_plugin_drafts_first_and_never_learns_of_more_than_it_drafted():
    inner = PlainDrafter(lambda history, limit: [9])
    drafter = ScriptedDrafter(inner, AcceptanceScript(truth, lambda request: 4, N_VOCAB))
    drafter.begin(PROMPT)
    inner.seen = [*PROMPT]
    assert list(drafter.propose(request(1)).tokens) == truth(PROMPT, 5)[1:]
    assert list(drafter.own[-1].tokens) == [9]
    mark = drafter.checkpoint()
    drafter.accept(4)
    assert inner.accepted == [1]
    drafter.restore(mark)
    assert inner.accepted == []


def test_the_oracle_decodes_plainly_up_to_the_end_of_the_context():
    oracle = Oracle(fake_context(), N_VOCAB)
    assert list(oracle.tokens(PROMPT, 9)) == truth(PROMPT, 9)
    assert len(oracle.tokens(PROMPT, 500)) == 64 - len(PROMPT) + 1


def test_a_replay_leaves_what_was_replayed():
    context = fake_context()
    replay(context, PROMPT, [7, 8])
    assert context.tokens() == [*PROMPT, 7, 8]
    assert probed_logits(context, [1, 2]).shape == (2, N_VOCAB)


@pytest.mark.parametrize(("when", "held"), [("before", []), ("after", [1])])
def test_a_fault_strikes_once_before_or_after_its_call(when, held):
    journal, values = Journal(), []
    spy = Spy(values, "target", journal)
    journal.arm("target", "append", when=when, nth=2)
    spy.append(0)
    with pytest.raises(InjectedError):
        spy.append(1)
    spy.append(2)
    assert values == [0, *held, 2]
    assert journal.struck
    assert [str(call) for call in journal.calls] == ["target.append"] * 3


def test_only_calls_that_move_state_are_steps():
    journal = Journal()
    journal.calls += [Call("target", "evaluate"), Call("target", "length_tokens"), Call("sampler", "sample")]
    assert journal.steps() == ["target.evaluate", "sampler.sample"]


def test_a_counting_sampler_goes_back_with_its_counts():
    context = fake_context()
    replay(context, PROMPT, [])
    sampler = CountingSampler(context)
    sampler.begin(PROMPT)
    mark = sampler.snapshot()
    first = sampler.sample(0)
    assert (sampler.draws, sampler.accepted) == (1, [*PROMPT, first])
    sampler.restore(mark)
    assert (sampler.draws, sampler.accepted) == (0, [*PROMPT])
    assert sampler.sample(0) == first


def test_a_failure_says_what_was_done_expected_and_found():
    with pytest.raises(ClauseBroken, match=r"(?s)the length.*begin\(5\) round\(2\).*expected: 3.*actual:   4"):
        check_equal("the length", 4, 3, history=["begin(5)", "round(2)"])


def test_a_machine_has_at_most_twelve_rules():
    rules = [name for name, value in vars(HistoryMachine).items() if hasattr(value, "hypothesis_stateful_rule")]
    assert 8 <= len(rules) <= 12
