"""Several chained heads on a real model (architecture mimo2, random weights): each step runs its own head."""

import numpy as np
import pytest
from gguf import GGUFWriter

from power_core.artifacts import check_target, scan_header
from power_core.target import ModelSettings
from power_core.testing.tokenizer import END_OF_TEXT, VOCABULARY_TOKENS, tiny_tokenizer
from power_mtp.artifact import refusal
from power_native import NativeModel

pytestmark = pytest.mark.native

HIDDEN, FEED_FORWARD, HEADS, GROUPS, HEAD_WIDTH = 128, 256, 4, 2, 32
TRUNK_BLOCKS, MTP_BLOCKS, WINDOW_TOKENS = 2, 3, 16
BLOCKS = TRUNK_BLOCKS + MTP_BLOCKS
PROMPT = [(7 * index + 11) % 400 for index in range(50)]


def write_sizes(writer):
    writer.add_context_length(8192)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_expert_feed_forward_length(0)
    writer.add_sliding_window(WINDOW_TOKENS)
    writer.add_sliding_window_pattern([True] + [False] * (BLOCKS - 1))
    writer.add_nextn_predict_layers(MTP_BLOCKS)


def write_tokenizer(writer):
    tokenizer = tiny_tokenizer()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(tokenizer.token_types)
    writer.add_token_merges(tokenizer.merges)
    writer.add_eos_token_id(tokenizer.id_of(END_OF_TEXT))


def tensors():
    yield "token_embd", (HIDDEN, VOCABULARY_TOKENS)
    yield "output_norm", (HIDDEN,)
    yield "output", (HIDDEN, VOCABULARY_TOKENS)
    for block in range(BLOCKS):
        yield f"blk.{block}.attn_norm", (HIDDEN,)
        yield f"blk.{block}.attn_qkv", (HIDDEN, (HEADS + 2 * GROUPS) * HEAD_WIDTH)
        yield f"blk.{block}.attn_output", (HEADS * HEAD_WIDTH, HIDDEN)
        yield f"blk.{block}.ffn_norm", (HIDDEN,)
        yield f"blk.{block}.ffn_gate", (HIDDEN, FEED_FORWARD)
        yield f"blk.{block}.ffn_up", (HIDDEN, FEED_FORWARD)
        yield f"blk.{block}.ffn_down", (FEED_FORWARD, HIDDEN)
        if block >= TRUNK_BLOCKS:
            yield f"blk.{block}.nextn.eh_proj", (2 * HIDDEN, HIDDEN)
            yield f"blk.{block}.nextn.enorm", (HIDDEN,)
            yield f"blk.{block}.nextn.hnorm", (HIDDEN,)
    yield f"blk.{BLOCKS - 1}.nextn.shared_head_head", (HIDDEN, VOCABULARY_TOKENS)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "several-heads.gguf"
    writer = GGUFWriter(path, "mimo2")
    write_sizes(writer)
    write_tokenizer(writer)
    random = np.random.default_rng(7)
    for name, shape in tensors():
        vector = len(shape) == 1
        values = np.ones(shape) if vector else random.standard_normal(shape[::-1]) * shape[0] ** -0.5
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def model(path):
    with NativeModel.open(ModelSettings(path=path, load_nextn=True)) as model:
        yield model


@pytest.fixture
def bench(model, open_bench):
    return lambda **settings: open_bench(model, snapshots=0, **settings)


def drafts_of_separate_contexts(bench, tokens, states, anchor):
    """What the heads draft when each has a context of its own, which only ever ran that head."""
    chain, rows, drafts = [anchor], [states[-1]], []
    for head in range(MTP_BLOCKS):
        context = bench.model.open_nextn_context(bench.target, threads=1)
        context.set_nextn_head(head)
        before = np.concatenate((np.zeros((1, HIDDEN), np.float32), states[:-1]))
        context.evaluate_inputs(tokens=tokens, states=before, start_pos=0)
        context.evaluate_inputs(tokens=chain, states=np.stack(rows), start_pos=len(tokens), logits="last")
        drafts.append(context.argmax(head))
        chain.append(drafts[-1])
        rows.append(context.read_nextn(head, 1)[0])
        context.close()
    return drafts


def test_the_file_is_right(path):
    header = scan_header(path)
    assert check_target(header).failures == ()
    assert refusal(header) is None


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_drafts_equal_those_of_separate_contexts(bench, chunk):
    one, oracle = bench(), bench()
    anchor = one.start(PROMPT, chunk)
    drafts = list(one.propose(anchor).tokens)
    states = oracle.evaluate(PROMPT).taps.nextn
    assert drafts == drafts_of_separate_contexts(oracle, PROMPT, states, anchor)
    assert len(set(drafts)) > 1


def test_a_chain_is_no_longer_than_there_are_heads(bench):
    one = bench()
    anchor = one.start(PROMPT)
    whole = list(one.propose(anchor, limit=4).tokens)
    assert len(whole) == MTP_BLOCKS
    assert list(one.propose(anchor, limit=2).tokens) == whole[:2]


@pytest.mark.parametrize("head", [{"head_rows": 50}, {"head_tokens": [*range(49, 0, -1), 0]}], ids=["first", "named"])
def test_each_head_has_fewer_rows(bench, head):
    """Two heads share the model's matrix, the last one has its own."""
    one = bench()
    states = one.evaluate(PROMPT).taps.nextn
    for block in range(MTP_BLOCKS):
        logits = []
        for rows in ({}, head):
            context = one.model.open_nextn_context(one.target, threads=1, **rows)
            context.set_nextn_head(block)
            context.evaluate_inputs(tokens=PROMPT, states=states, start_pos=0, logits="last")
            logits.append(context.logits(len(PROMPT) - 1).copy())
            context.close()
        assert np.array_equal(logits[1][:50], logits[0][:50])
        assert np.all(logits[1][50:] == -np.inf)


@pytest.mark.parametrize("accepted", [[0] * 4, [3] * 4, [2, 0, 3, 1]], ids=["zero", "full", "mixed"])
def test_drafts_after_rejections_equal_those_of_a_fresh_drafter(bench, accepted):
    used, fresh = bench(), bench()
    history, anchor = list(PROMPT), used.start(PROMPT, 16)
    for count in accepted:
        kept, anchor = used.round(anchor, count)
        history += kept
    assert fresh.start(history) == anchor
    assert list(used.propose(anchor).tokens) == list(fresh.propose(anchor).tokens)


def test_restore_undoes_a_round(bench):
    one = bench()
    anchor = one.start(PROMPT)
    expected = list(one.propose(anchor).tokens)
    mark = one.drafter.checkpoint()
    one.round(anchor, 2)
    one.target.truncate(len(PROMPT))
    one.drafter.restore(mark)
    assert list(one.propose(anchor).tokens) == expected
