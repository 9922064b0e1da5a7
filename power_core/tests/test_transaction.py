"""The transaction's states: order enforced, rolled back unless committed, nesting refused, interruption survived."""

from __future__ import annotations

import pytest
from core_sessions import N_VOCAB, drafts_with_acceptance, fake_context, open_fake_session

from power_core.drafter import DraftRequest, Proposal
from power_core.errors import IntegrityError, PluginContractError, StateError, TransactionAborted
from power_core.report import Report
from power_core.sequence import TargetSequence
from power_core.target import ContextSettings
from power_core.testing.fakes import FakeModel, GreedySampler, ScriptedDrafter, plain_decode
from power_core.transaction import Round, TransactionState, VerifyTransaction

PROMPT = [3, 1, 4, 1, 5, 9]


def start(drafter, **options):
    session = open_fake_session(drafter, **options)
    session.generate(PROMPT, max_tokens=1).result()
    assert session._parts is not None
    return session, session._parts


def request_for(parts, limit=4):
    return DraftRequest(n_past=parts.sequence.committed_tokens, anchor=parts.sequence.history[-1], limit_tokens=limit)


def run_round(parts, *, commit):
    with VerifyTransaction(parts, Report(strategy="x")) as transaction:
        transaction.propose(request_for(parts))
        transaction.verify(lambda token: False)
        if commit:
            transaction.commit()


def always(accepted):
    return ScriptedDrafter(drafts_with_acceptance(lambda limit: min(accepted, limit)))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("accepted", range(5))
def test_commit_leaves_exactly_the_accepted_prefix_everywhere(recurrent, accepted):
    drafter = always(accepted)
    session, parts = start(drafter, recurrent=recurrent)
    with VerifyTransaction(parts, Report(strategy="x")) as transaction:
        transaction.propose(request_for(parts))
        block = transaction.verify(lambda token: False)
        transaction.commit()
    assert transaction.state is TransactionState.COMMITTED
    assert block.accepted_tokens == accepted
    history = PROMPT + plain_decode(PROMPT, 2 + accepted, N_VOCAB)
    assert parts.sequence.history == history
    assert fake_context(session).tokens() == history[:-1] == drafter.seen
    assert drafter.accepted == [accepted]


def test_leaving_without_commit_rolls_back():
    drafter = always(2)
    session, parts = start(drafter)
    before = fake_context(session).tokens()
    with VerifyTransaction(parts, Report(strategy="x")) as transaction:
        transaction.propose(request_for(parts))
        transaction.verify(lambda token: False)
    assert transaction.state is TransactionState.ROLLED_BACK
    assert fake_context(session).tokens() == before == drafter.seen
    assert drafter.accepted == []


@pytest.mark.parametrize("operation", ["verify", "commit"])
def test_steps_out_of_order_are_refused(operation):
    _, parts = start(always(1))
    with VerifyTransaction(parts, Report(strategy="x")) as transaction, pytest.raises(StateError, match=operation):
        transaction.verify(lambda token: False) if operation == "verify" else transaction.commit()


def test_a_second_proposal_is_refused():
    _, parts = start(always(1))
    with VerifyTransaction(parts, Report(strategy="x")) as transaction:
        transaction.propose(request_for(parts))
        with pytest.raises(StateError, match="propose"):
            transaction.propose(request_for(parts))


def test_nesting_is_refused():
    _, parts = start(always(1))
    with (
        VerifyTransaction(parts, Report(strategy="x")),
        pytest.raises(StateError, match="already open"),
        VerifyTransaction(parts, Report(strategy="x")),
    ):
        pass


@pytest.mark.parametrize(
    ("drafts", "wrong"),
    [
        ([1, 2, 3, 4, 5], "at most 4"),
        ([N_VOCAB], "vocabulary"),
        ([-1], "vocabulary"),
        (["a"], "token id"),
        ([None], "token id"),
        ([1.0], "token id"),
        ([True], "token id"),
    ],
)
def test_a_proposal_outside_the_contract_is_the_plugins_fault(drafts, wrong):
    drafter = ScriptedDrafter(lambda history, limit: drafts)
    session, parts = start(drafter)
    before = fake_context(session).tokens()
    with pytest.raises(PluginContractError, match=wrong), VerifyTransaction(parts, Report(strategy="x")) as transaction:
        transaction.propose(request_for(parts))
    assert fake_context(session).tokens() == before


def test_a_drafter_that_raises_aborts_the_transaction_with_its_cause():
    def explode(history, limit):
        raise ValueError("broken drafter")

    _, parts = start(ScriptedDrafter(explode))
    with (
        pytest.raises(TransactionAborted, match="broken drafter") as caught,
        VerifyTransaction(parts, Report(strategy="x")) as transaction,
    ):
        transaction.propose(request_for(parts))
    assert isinstance(caught.value.__cause__, ValueError)
    assert transaction.state is TransactionState.ROLLED_BACK


def test_an_interrupted_rollback_is_finished_by_the_next_transaction(monkeypatch):
    drafter = always(2)
    session, parts = start(drafter)
    original, calls = drafter.restore, []

    def restore_once_interrupted(checkpoint, *, seq_id=0):
        calls.append(checkpoint)
        if len(calls) == 1:
            raise KeyboardInterrupt
        original(checkpoint, seq_id=seq_id)

    monkeypatch.setattr(drafter, "restore", restore_once_interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_round(parts, commit=False)
    run_round(parts, commit=True)
    assert len(calls) == 2
    assert fake_context(session).tokens() == parts.sequence.history[:-1] == drafter.seen


def test_a_rollback_that_fails_is_an_integrity_error(monkeypatch):
    drafter = always(2)
    _, parts = start(drafter)

    def broken(checkpoint, *, seq_id=0):
        raise RuntimeError("cannot restore")

    monkeypatch.setattr(drafter, "restore", broken)
    with pytest.raises(IntegrityError, match="cannot restore"), VerifyTransaction(parts, Report(strategy="x")):
        pass


def test_a_proposal_for_another_sequence_is_the_plugins_fault():
    drafter = always(1)
    _, parts = start(drafter)
    drafter.propose = lambda request: Proposal(seq_id=1, tokens=[1])
    with pytest.raises(PluginContractError, match="sequence 1"), VerifyTransaction(parts, Report(strategy="x")) as it:
        it.propose(request_for(parts))


def test_every_part_is_asked_about_the_sequence_it_is():
    model = FakeModel(n_vocab=N_VOCAB)
    context = model.open_context(ContextSettings(ctx_tokens=64, batch_rows=16, sequences=2))
    drafter = SequenceRecorder()
    sequence = TargetSequence(context, slice_rows=2, seq_id=1)
    row = sequence.start(PROMPT, on_rows=drafter.process)
    sequence.begin(PROMPT, context.argmax(row))
    parts = Round(sequence, GreedySampler(context), drafter, N_VOCAB)
    for commit in (True, False):
        with VerifyTransaction(parts, Report(strategy="x")) as transaction:
            limit = DraftRequest(
                seq_id=1, n_past=sequence.committed_tokens, anchor=sequence.history[-1], limit_tokens=3
            )
            transaction.propose(limit)
            transaction.verify(lambda token: False)
            if commit:
                transaction.commit()
    assert drafter.sequences == {1}
    assert context.tokens(1) == sequence.history[:-1]
    assert context.tokens(0) == []


class SequenceRecorder(ScriptedDrafter):
    """Notes the sequence id of every call."""

    def __init__(self):
        super().__init__(drafts_with_acceptance(lambda limit: 1))
        self.sequences = set()

    def process(self, rows):
        self.sequences.add(rows.seq_id)
        super().process(rows)

    def propose(self, request):
        self.sequences.add(request.seq_id)
        return super().propose(request)

    def accept(self, accepted_tokens, *, seq_id=0):
        self.sequences.add(seq_id)

    def checkpoint(self, *, seq_id=0):
        self.sequences.add(seq_id)
        return super().checkpoint()

    def restore(self, checkpoint, *, seq_id=0):
        self.sequences.add(seq_id)
        super().restore(checkpoint)
