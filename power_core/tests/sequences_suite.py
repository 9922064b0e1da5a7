"""What every drafter over a draft graph keeps when several sequences share it.

Imported by the tests of each drafter with a model behind it; ``bench`` is theirs.
"""

from drafter_bench import LOWEST, same

PROMPT = [(7 * index + 11) % 400 for index in range(50)]
OTHER_PROMPT = [(13 * index + 5) % 400 for index in range(21)]


def test_sequences_share_the_drafter(bench):
    both, alone = bench(sequences=2), bench()
    anchor = both.start(PROMPT, seq_id=0)
    other_anchor = both.start(OTHER_PROMPT, seq_id=1)
    kept, anchor = both.round(anchor, 1, seq_id=0)
    other_kept, other_anchor = both.round(other_anchor, 3, seq_id=1)
    assert alone.start(PROMPT + kept) == anchor
    assert same(both.propose(anchor, p_min=LOWEST, seq_id=0), alone.propose(anchor, p_min=LOWEST))
    assert alone.start(OTHER_PROMPT + other_kept) == other_anchor
    assert same(both.propose(other_anchor, p_min=LOWEST, seq_id=1), alone.propose(other_anchor, p_min=LOWEST))


def test_one_draft_a_round_on_four_sequences_leaves_no_row_behind(bench):
    one = bench(sequences=4)
    anchors = [one.start(PROMPT[: 10 + seq_id], seq_id=seq_id) for seq_id in range(4)]
    for step in range(5):
        for seq_id in range(4):
            _, anchors[seq_id] = one.round(anchors[seq_id], (step + seq_id) % 2, seq_id=seq_id, limit=1)
            assert [one.held_tokens(at) for at in range(4)] == [one.target.length_tokens(at) for at in range(4)]
