"""One case for every check of the MTP contract, on headers with one fault each."""

import attrs
import pytest

from power_core.artifacts import ArtifactValidator, scan_header
from power_core.artifacts.values import ValueType
from power_core.testing import GgufBytes, build_tiny_target
from power_mtp.artifact import MtpValidator, refusal

F32, F16, Q8_0, I32 = 0, 1, 8, 26

HIDDEN, VOCABULARY, FEED_FORWARD, HEADS, GROUPS, HEAD_WIDTH = 32, 8, 64, 2, 1, 32

KEYS = {
    "embedding_length": HIDDEN,
    "block_count": 5,
    "feed_forward_length": FEED_FORWARD,
    "attention.head_count": HEADS,
    "attention.head_count_kv": GROUPS,
    "attention.key_length": HEAD_WIDTH,
    "attention.value_length": HEAD_WIDTH,
    "nextn_predict_layers": 1,
}
NORMS = ("attn_norm", "post_attention_norm", "attn_q_norm", "attn_k_norm", "nextn.enorm", "nextn.hnorm")
SHAPES = {
    **{f"{name}.weight": (32,) for name in NORMS},
    "attn_q.weight": (HIDDEN, 2 * HEADS * HEAD_WIDTH),
    "attn_k.weight": (HIDDEN, GROUPS * HEAD_WIDTH),
    "attn_v.weight": (HIDDEN, GROUPS * HEAD_WIDTH),
    "attn_output.weight": (HEADS * HEAD_WIDTH, HIDDEN),
    "ffn_gate.weight": (HIDDEN, FEED_FORWARD),
    "ffn_up.weight": (HIDDEN, FEED_FORWARD),
    "ffn_down.weight": (FEED_FORWARD, HIDDEN),
    "nextn.eh_proj.weight": (2 * HIDDEN, HIDDEN),
}


@attrs.frozen(kw_only=True)
class Plan:
    """A target of four trunk blocks (only their first norm is written) and one MTP block, to be changed by a test."""

    architecture: str = "qwen35"
    keys: dict = attrs.field(factory=lambda: dict(KEYS))
    shared: dict = attrs.field(
        factory=lambda: {
            "token_embd.weight": (HIDDEN, VOCABULARY),
            "output_norm.weight": (HIDDEN,),
            "blk.0.attn_norm.weight": (HIDDEN,),
        }
    )
    block: dict = attrs.field(factory=lambda: dict(SHAPES))
    blocks: tuple = (4,)
    types: dict = attrs.field(factory=dict)

    def header(self, folder):
        gguf = GgufBytes().with_value("general.architecture", ValueType.STRING, self.architecture)
        for suffix, value in self.keys.items():
            key = suffix if "nextn" in suffix and "." in suffix else f"{self.architecture}.{suffix}"
            if isinstance(value, tuple):
                gguf = gguf.with_array(key, ValueType.UINT32, value)
            elif isinstance(value, float):
                gguf = gguf.with_value(key, ValueType.FLOAT32, value)
            else:
                gguf = gguf.with_value(key, ValueType.UINT32, value)
        for name, shape in self.shared.items():
            gguf = gguf.with_tensor(name, shape, self.types.get(name, F32))
        for block in self.blocks:
            for name, shape in self.block.items():
                gguf = gguf.with_tensor(f"blk.{block}.{name}", shape, self.types.get(name, F32))
        path = folder / "model.gguf"
        path.write_bytes(gguf.build())
        return scan_header(path)


def with_keys(**changes):
    """A plan with keys changed, or left out when None."""
    keys = {**KEYS, **{name.replace("__", "."): value for name, value in changes.items()}}
    return Plan(keys={name: value for name, value in keys.items() if value is not None})


def with_block(changes, **fields):
    """A plan with tensors of the MTP block changed, or left out when None."""
    shapes = {**SHAPES, **changes}
    return Plan(block={name: shape for name, shape in shapes.items() if shape is not None}, **fields)


def with_shared(changes, **fields):
    shapes = {**Plan().shared, **changes}
    return Plan(shared={name: shape for name, shape in shapes.items() if shape is not None}, **fields)


FUSED = {"attn_q.weight": None, "attn_k.weight": None, "attn_v.weight": None}
MIMO_BLOCK = {
    **FUSED,
    "attn_qkv.weight": (HIDDEN, HEADS * HEAD_WIDTH + GROUPS * (HEAD_WIDTH + 16)),
    "attn_output.weight": (HEADS * 16, HIDDEN),
    "ffn_norm.weight": (HIDDEN,),
}
MIMO = with_block(MIMO_BLOCK, architecture="mimo2", keys={**KEYS, "attention.value_length": 16})


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(), id="plain"),
        pytest.param(with_block({**FUSED, "attn_qkv.weight": (HIDDEN, 6 * HEAD_WIDTH)}), id="fused attention"),
        pytest.param(with_keys(attention__head_count_kv=(0, 0, 0, 1, 1)), id="a number for each block"),
        pytest.param(Plan(types={"attn_q.weight": F16, "nextn.eh_proj.weight": Q8_0}), id="quantised matrices"),
        pytest.param(with_shared({"output.weight": (HIDDEN, VOCABULARY)}), id="own output matrix"),
        pytest.param(
            with_shared({"output_norm.weight": None}, block={**SHAPES, "nextn.shared_head_norm.weight": (32,)}),
            id="own head norm",
        ),
        pytest.param(
            with_block(
                {
                    "nextn.embed_tokens.weight": (HIDDEN, VOCABULARY),
                    "nextn.shared_head_head.weight": (HIDDEN, VOCABULARY),
                    "nextn.shared_head_norm.weight": (HIDDEN,),
                }
            ),
            id="own embeddings and head",
        ),
        pytest.param(Plan(architecture="glm4moe"), id="an architecture whose other tensors the loader checks"),
        pytest.param(MIMO, id="fused attention of an architecture that needs it"),
        pytest.param(
            Plan(architecture="step35", keys={**KEYS, "block_count": 7, "nextn_predict_layers": 3}, blocks=(4, 5, 6)),
            id="several heads where the library runs several",
        ),
    ],
)
def test_right_files_pass(tmp_path, plan):
    header = plan.header(tmp_path)
    report = MtpValidator().validate(header)
    assert report.failures == ()
    assert report.ok
    assert refusal(header) is None
    assert MtpValidator().matches(header)


@pytest.mark.parametrize(
    ("plan", "check", "message"),
    [
        pytest.param(
            Plan(keys={**with_keys(nextn_predict_layers=None).keys}, block={}, blocks=()),
            "nextn_predict_layers",
            "this file has no MTP head (architecture qwen35, 5 blocks)",
            id="no head",
        ),
        pytest.param(
            with_keys(nextn_predict_layers=0),
            "nextn_predict_layers",
            "it holds 'blk.4.nextn.enorm.weight', but 'qwen35.nextn_predict_layers' does not say so",
            id="tensors without the key",
        ),
        pytest.param(
            Plan(keys={**with_keys(nextn_predict_layers=None).keys, "other.nextn_predict_layers": 1}),
            "nextn_predict_layers",
            "but 'qwen35.nextn_predict_layers' does not say so",
            id="key of another architecture",
        ),
        pytest.param(
            with_keys(nextn_predict_layers=1.0), "nextn_predict_layers", "stored as FLOAT32", id="count is no integer"
        ),
        pytest.param(with_keys(block_count=None), "block_count", "'qwen35.block_count' is None", id="no block count"),
        pytest.param(with_keys(block_count=5.0), "block_count", "is 5.0", id="block count is no integer"),
        pytest.param(with_keys(block_count=2**32 - 1), "block_count", "is 4294967295", id="huge block count"),
        pytest.param(
            with_keys(block_count=1),
            "role",
            "this file is an MTP companion: it declares 1 blocks, 1 of them MTP, and holds no trunk block",
            id="head only, by its count",
        ),
        pytest.param(
            with_shared({"blk.0.attn_norm.weight": None}), "role", "is an MTP companion", id="head only, by its tensors"
        ),
        pytest.param(
            Plan(architecture="glm4"),
            "architecture",
            "MTP heads of architecture 'glm4' are not supported",
            id="architecture that is not supported",
        ),
        pytest.param(
            Plan(keys={**KEYS, "block_count": 6, "nextn_predict_layers": 2}, blocks=(4, 5)),
            "heads",
            "the pinned llama.cpp runs one MTP head of architecture 'qwen35', this file has 2",
            id="several heads where the library runs one",
        ),
        pytest.param(
            with_block({**MIMO_BLOCK, "attn_qkv.weight": None}, architecture="mimo2", keys=MIMO.keys),
            "tensor",
            "tensor 'blk.4.attn_qkv.weight' is missing",
            id="fused attention is missing where it is needed",
        ),
        pytest.param(
            Plan(architecture="glm4moe", keys={**KEYS, "attention.value_length": 64}),
            "head_widths",
            "keys are 32 wide, values 64",
            id="unequal head widths",
        ),
        pytest.param(
            Plan(architecture="nemotron_h_moe"),
            "tensor",
            "tensor 'blk.4.nextn.shared_head_norm.weight' is missing",
            id="own norm is missing where it is needed",
        ),
        pytest.param(
            with_keys(block_count=33),
            "block",
            "declared MTP block 32 has no tensors",
            id="declared block without tensors",
        ),
        pytest.param(
            Plan(architecture="step35", keys={**KEYS, "block_count": 7, "nextn_predict_layers": 3}, blocks=(4, 6)),
            "block",
            "declared MTP block 5 has no tensors",
            id="one of several heads without tensors",
        ),
        *(
            pytest.param(
                with_block({name: None}), "tensor", f"tensor 'blk.4.{name}' is missing", id=f"{name} is missing"
            )
            for name in SHAPES
        ),
        *(
            pytest.param(
                with_block({name: (shape[0], 2 * shape[1]) if len(shape) == 2 else (2 * shape[0],)}),
                "shape",
                f"tensor 'blk.4.{name}' has shape",
                id=f"{name} has a wrong width",
            )
            for name, shape in SHAPES.items()
        ),
        *(
            pytest.param(
                with_block({f"nextn.{name}.weight": (HIDDEN, 2 * VOCABULARY)}),
                "shape",
                f"tensor 'blk.4.nextn.{name}.weight' has shape (32, 16), expected (32, 8)",
                id=f"{name} of another vocabulary",
            )
            for name in ("embed_tokens", "shared_head_head")
        ),
        *(
            pytest.param(
                with_keys(**{name.replace(".", "__"): None}),
                "key",
                f"the key 'qwen35.{name}' is missing",
                id=f"no {name}",
            )
            for name in KEYS
            if name not in ("block_count", "nextn_predict_layers")
        ),
        pytest.param(
            with_keys(attention__head_count_kv=(1, 1)),
            "key",
            "'qwen35.attention.head_count_kv' is None",
            id="short array",
        ),
        pytest.param(with_keys(embedding_length=0), "key", "'qwen35.embedding_length' is 0", id="zero width"),
        pytest.param(
            with_shared({"token_embd.weight": None, "output.weight": (HIDDEN, VOCABULARY)}),
            "token_embd",
            "'token_embd.weight' must be a matrix",
            id="no embeddings",
        ),
        pytest.param(
            Plan(types={"nextn.hnorm.weight": F16}),
            "type",
            "tensor 'blk.4.nextn.hnorm.weight' is stored as F16",
            id="F16 norm",
        ),
        pytest.param(
            Plan(types={"nextn.eh_proj.weight": I32}),
            "type",
            "'blk.4.nextn.eh_proj.weight' is stored as I32",
            id="int matrix",
        ),
        pytest.param(
            with_shared({"output_norm.weight": None}), "output", "'output_norm.weight') exists", id="no norm to end in"
        ),
    ],
)
def test_one_fault_is_named(tmp_path, plan, check, message):
    header = plan.header(tmp_path)
    report = MtpValidator().validate(header)
    assert report.kind == "mtp"
    assert [failure.id for failure in report.failures] == [f"mtp.{check}"]
    assert message in report.failures[0].message
    assert refusal(header) == report.failures[0].message


def test_file_without_any_mark_does_not_claim_to_have_a_head(tmp_path):
    header = Plan(keys=with_keys(nextn_predict_layers=None).keys, blocks=()).header(tmp_path)
    assert not MtpValidator().matches(header)


@pytest.mark.parametrize("plan", [with_keys(nextn_predict_layers=None), with_keys(nextn_predict_layers=1.5)])
def test_file_with_half_a_mark_claims_to_have_a_head(tmp_path, plan):
    assert MtpValidator().matches(plan.header(tmp_path))


def test_missing_shard_is_a_verdict(tmp_path):
    keys = {"split.count": (ValueType.UINT16, 2), "split.no": (ValueType.UINT16, 0)}
    gguf = GgufBytes().with_value("general.architecture", ValueType.STRING, "qwen35")
    for key, (value_type, value) in keys.items():
        gguf = gguf.with_value(key, value_type, value)
    path = tmp_path / "model-00001-of-00002.gguf"
    path.write_bytes(gguf.with_value("split.tensors.count", ValueType.INT32, 9).build())
    report = MtpValidator().validate(scan_header(path))
    assert [failure.id for failure in report.failures] == ["mtp.shards"]
    assert "model-00002-of-00002.gguf" in report.failures[0].message


@pytest.mark.parametrize("kind", ["attention", "sliding-window"])
def test_real_targets_without_a_head_are_refused(tmp_path, kind):
    header = scan_header(build_tiny_target(tmp_path / "model.gguf", kind=kind, hidden=128))
    blocks = {"attention": 4, "sliding-window": 6}[kind]
    assert refusal(header) == f"this file has no MTP head (architecture {header.architecture}, {blocks} blocks)"


def test_real_target_with_a_head_passes(tmp_path):
    header = scan_header(build_tiny_target(tmp_path / "model.gguf", kind="hybrid", hidden=128))
    report = MtpValidator().validate(header)
    assert report.failures == ()
    assert len(report.checks) > 30


def test_real_target_with_two_heads_is_refused_by_name(tmp_path):
    header = scan_header(build_tiny_target(tmp_path / "model.gguf", kind="hybrid", hidden=128, nextn_layers=2))
    assert refusal(header) == "the pinned llama.cpp runs one MTP head of architecture 'qwen35', this file has 2"


def test_implements_the_protocol():
    assert isinstance(MtpValidator(), ArtifactValidator)
