"""Heads of fewer rows in the graphs of hybrid targets with experts, which no tiny model of ours has otherwise."""

import numpy as np
import pytest

from power_core.target import ContextSettings, ModelSettings
from power_core.testing.gguf_files import write_model
from power_core.testing.tiny_weights import (
    CONV_KERNEL,
    FULL_ATTENTION_INTERVAL,
    HEAD_WIDTH,
    STATE_WIDTH,
    TinyPlan,
    tiny_tensors,
)
from power_core.tokens import SequenceRows, TapRequest
from power_native import NativeModel

pytestmark = pytest.mark.native

PLAN = TinyPlan(kind="hybrid", hidden=128, nextn_layers=1)
EXPERTS, EXPERT_WIDTH = 4, 64
TOKENS = list(range(40, 52))
NAMED = [400, 3, 511, 77]


def expert_tensors(hidden):
    yield "ffn_gate_inp.weight", (hidden, EXPERTS)
    yield "ffn_gate_exps.weight", (hidden, EXPERT_WIDTH, EXPERTS)
    yield "ffn_up_exps.weight", (hidden, EXPERT_WIDTH, EXPERTS)
    yield "ffn_down_exps.weight", (EXPERT_WIDTH, hidden, EXPERTS)
    yield "ffn_gate_inp_shexp.weight", (hidden,)
    yield "ffn_gate_shexp.weight", (hidden, EXPERT_WIDTH)
    yield "ffn_up_shexp.weight", (hidden, EXPERT_WIDTH)
    yield "ffn_down_shexp.weight", (EXPERT_WIDTH, hidden)


def shapes(architecture):
    """The tiny hybrid's tensors with experts in place of the dense feed-forward part."""
    for name, shape in tiny_tensors(PLAN):
        prefix, found, _ = name.partition(".ffn_down.")
        if found:
            yield from ((f"{prefix}.{expert}", size) for expert, size in expert_tensors(PLAN.hidden))
        elif architecture == "qwen3next" and "ssm_beta" in name:
            yield name.replace("ssm_beta", "ssm_ba"), (shape[0], 2 * shape[1])
        elif ".ffn_" not in name and not (architecture == "qwen3next" and "ssm_alpha" in name):
            yield name, shape


def weights(architecture):
    random = np.random.default_rng(11)
    for name, shape in shapes(architecture):
        if name.endswith("ssm_a"):
            values = -np.ones(shape)
        elif len(shape) == 1:
            values = np.ones(shape)
        else:
            values = random.standard_normal(shape[::-1]) * shape[0] ** -0.5
        yield name, values.astype(np.float32), "F32"


def add_keys(writer):
    writer.add_embedding_length(PLAN.hidden)
    writer.add_block_count(PLAN.blocks)
    writer.add_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_shared_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(2)
    writer.add_head_count(PLAN.heads)
    writer.add_head_count_kv(PLAN.key_heads)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_rope_dimension_count(HEAD_WIDTH // 4)
    writer.add_rope_dimension_sections([3, 3, 2, 0])
    writer.add_ssm_conv_kernel(CONV_KERNEL)
    writer.add_ssm_state_size(STATE_WIDTH)
    writer.add_ssm_group_count(PLAN.key_heads)
    writer.add_ssm_time_step_rank(PLAN.heads)
    writer.add_ssm_inner_size(PLAN.state_inner)
    writer.add_full_attention_interval(FULL_ATTENTION_INTERVAL)
    writer.add_nextn_predict_layers(1)


@pytest.fixture(params=["qwen35moe", "qwen3next"])
def target(request, tmp_path):
    path = write_model(tmp_path / "target.gguf", request.param, add_keys, weights(request.param))
    settings = ContextSettings(ctx_tokens=64, batch_rows=32, threads=1, taps=TapRequest(nextn=True))
    with NativeModel.open(ModelSettings(path=path, load_nextn=True)) as model, model.open_context(settings) as context:
        context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
        yield context


def head_logits(target, **head):
    states = target.read_nextn(0, len(TOKENS))
    with target.model.open_nextn_context(target, threads=1, **head) as context:
        context.evaluate_inputs(tokens=TOKENS, states=states, start_pos=0, logits="last")
        return context.logits(len(TOKENS) - 1).copy()


@pytest.mark.parametrize(
    ("head", "present"),
    [({"head_rows": 100}, list(range(100))), ({"head_tokens": NAMED}, NAMED)],
    ids=["first", "named"],
)
def test_rows_are_those_of_the_whole_head(target, head, present):
    whole, few = head_logits(target), head_logits(target, **head)
    expected = np.full_like(whole, -np.inf)
    expected[present] = whole[present]
    assert np.ptp(whole) > 0
    assert np.array_equal(few, expected)
