"""What a GGUF file is for, in words: used by ``power inspect``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.shards import shard_position
from power_core.artifacts.target_checks import check_target
from power_core.artifacts.values import StringArray
from power_core.artifacts.wording import shorten
from power_core.errors import ArtifactContractError

__all__ = ["FileRole", "Role", "check_target", "describe_role", "dflash_kinds", "require_target"]

Role: TypeAlias = Literal[
    "target",
    "target-with-nextn",
    "nextn-companion",
    "dflash-family draft",
    "fork-format draft",
    "eagle3 draft",
    "split shard",
    "adapter",
    "projector",
    "vocab-only",
    "other",
]

BLOCK_ARCHITECTURE = "dflash"
DSPARK_KEYS = ("dflash.sample_from_anchor", "dflash.has_confidence_head")
DFLASH2_KEYS = (
    *("dflash.conv_kernel_size", "dflash.conv_group_size"),
    *("dflash.selector_rank", "dflash.selector_top_k"),
)
FORK_PREFIXES = ("dflash", "dspark")


@attrs.frozen(kw_only=True)
class FileRole:
    """The role, one sentence of facts, and what to do with the file next."""

    role: Role
    sentence: str
    next_step: str


def describe_role(header: GgufHeader) -> FileRole:
    """Say what a file is for. Looks at metadata and tensor names only; a role is not a verdict on validity.

    Raises:
        ArtifactContractError: a key that decides the role is stored with a wrong type.
    """
    for describe in (_describe_shard, _describe_auxiliary, _describe_draft, _describe_nextn, _describe_target):
        role = describe(header)
        if role is not None:
            return role
    return FileRole(
        role="other",
        sentence=f"{_architecture(header)}, {len(header.tensors)} tensors: no language model that generates text.",
        next_step="Give the GGUF of a causal language model.",
    )


def require_target(header: GgufHeader) -> None:
    """Check that a file can run as a target; a draft is told apart first, since the two are easily swapped.

    Raises:
        ArtifactContractError: a drafter (``target.role``), or a target that breaks a rule of ``check_target``.
        ArtifactError: a shard of a split model is missing, damaged or foreign.
    """
    role = _describe_draft(header)
    if role is not None:
        raise ArtifactContractError(
            shorten(f"{header.path} is no target. {role.sentence}"),
            path=str(header.path),
            check_id="target.role",
            expected="a target",
            actual=role.role,
            hint="give it as the draft, with --draft, and its target as the model",
        )
    check_target(header).raise_first()


def dflash_kinds(header: GgufHeader) -> tuple[str, ...]:
    """Return the kinds of the DFlash family whose marks the file carries: all three share one architecture name.

    One element for a clean file, ``("dflash",)`` when it has no mark at all; two when it mixes ``dflash2`` and
    ``dspark`` state.
    """
    kinds = [kind for kind in ("dflash2", "dspark") if any(kind_marks(header, kind))]
    return tuple(kinds) or ("dflash",)


def kind_marks(header: GgufHeader, kind: str) -> Iterator[str]:
    """Yield the keys and tensors that only ``dflash2`` or only ``dspark`` has; ``dflash`` has none of its own."""
    if kind == "dflash":
        return
    keys = DFLASH2_KEYS if kind == "dflash2" else DSPARK_KEYS
    yield from (key for key in keys if key in header.metadata)
    yield from (name for name in header.tensors if _tensor_kind(name) == kind)


def _tensor_kind(name: str) -> str:
    if name.startswith("selector_") or ".attn_conv_" in name or ".ffn_conv_" in name:
        return "dflash2"
    return "dspark" if name.startswith(("markov_", "conf_proj.")) else "dflash"


def _architecture(header: GgufHeader) -> str:
    name = header.get("general.architecture")
    return f"Architecture {name!r}" if name else "No general.architecture"


def _describe_shard(header: GgufHeader) -> FileRole | None:
    position = shard_position(header)
    if position is None:
        return None
    next_step = (
        "Give this file; the other shards have to lie beside it."
        if position.index == 0
        else f"Give the first shard instead, the file whose name ends in -00001-of-{position.count:05d}.gguf."
    )
    return FileRole(
        role="split shard",
        sentence=f"Shard {position.index + 1} of {position.count}: {len(header.tensors)} of the model's "
        f"{position.total_tensors} tensors.",
        next_step=next_step,
    )


def _describe_auxiliary(header: GgufHeader) -> FileRole | None:
    general_type = header.get("general.type")
    if general_type == "adapter":
        return FileRole(
            role="adapter",
            sentence=f"{_architecture(header)}: an adapter ({header.get('adapter.type')}), not a model.",
            next_step="Give the base model; adapters are not used.",
        )
    if general_type == "mmproj" or header.get("general.architecture") == "clip":
        return FileRole(
            role="projector",
            sentence=f"{_architecture(header)}: a multimodal projector, not a language model.",
            next_step="Give the language model; only text is decoded.",
        )
    tokens = header.get("tokenizer.ggml.tokens")
    if not header.tensors and isinstance(tokens, StringArray):
        return FileRole(
            role="vocab-only",
            sentence=f"{_architecture(header)}: a vocabulary of {len(tokens)} tokens without weights.",
            next_step="Give the file that holds the weights.",
        )
    return None


def _describe_draft(header: GgufHeader) -> FileRole | None:
    name = header.get("general.architecture")
    if not isinstance(name, str):
        return None
    if name == "dflash":
        return _describe_dflash(header)
    if name.startswith(FORK_PREFIXES):
        nested = next((key for key in header.metadata if key.startswith(f"{name}.dflash.")), None)
        return FileRole(
            role="fork-format draft",
            sentence=f"Architecture {name!r}: a drafter of the DFlash family in the format of a fork"
            f"{f', with nested keys such as {nested!r}' if nested else ''}.",
            next_step="Convert the checkpoint again with a converter that writes the architecture 'dflash'.",
        )
    if name.startswith("eagle3"):
        return FileRole(
            role="eagle3 draft",
            sentence=f"Architecture {name!r}, {len(header.tensors)} tensors: an EAGLE-3 drafter.",
            next_step="Pair it with its target; a plugin for EAGLE-3 is needed. Or use a draft of the DFlash family.",
        )
    return None


def _describe_dflash(header: GgufHeader) -> FileRole:
    kinds = dflash_kinds(header)
    layers = header.get("dflash.target_layers")
    facts = f"block size {header.get('dflash.block_size')}, target layers {layers}"
    if len(kinds) > 1:
        return FileRole(
            role="dflash-family draft",
            sentence=f"A drafter that mixes the state of {' and '.join(kinds)} ({facts}): no kind allows that.",
            next_step="Convert the checkpoint again; a file has one kind.",
        )
    return FileRole(
        role="dflash-family draft",
        sentence=f"A drafter that looks like {kinds[0]} ({facts}).",
        next_step=f"Use it with its target: power generate --model TARGET --draft FILE --spec {kinds[0]}",
    )


def _describe_nextn(header: GgufHeader) -> FileRole | None:
    layers = header.nextn_layers
    if layers == 0:
        return None
    blocks = header.get(header.arch_key("block_count"))
    trunk = blocks - layers if isinstance(blocks, int) else 0
    has_trunk = any(f"blk.{index}.attn_norm.weight" in header.tensors for index in range(min(max(trunk, 0), 512)))
    if not has_trunk:
        return FileRole(
            role="nextn-companion",
            sentence=f"{_architecture(header)}: {layers} prediction block(s) without the model they belong to.",
            next_step="Give the target that contains its own prediction blocks.",
        )
    return FileRole(
        role="target-with-nextn",
        sentence=f"{_target_facts(header)}; {layers} of the blocks predict ahead (MTP).",
        next_step="Run it: power generate --model FILE --spec mtp",
    )


def _describe_target(header: GgufHeader) -> FileRole | None:
    if "token_embd.weight" not in header.tensors or not header.get("general.architecture"):
        return None
    if header.get(header.arch_key("attention.causal")) is False:
        return None
    return FileRole(
        role="target",
        sentence=f"{_target_facts(header)}; no prediction blocks (MTP).",
        next_step="Run it: power generate --model FILE --spec prompt-lookup",
    )


def _target_facts(header: GgufHeader) -> str:
    tokens = header.get("tokenizer.ggml.tokens")
    vocabulary = len(tokens) if isinstance(tokens, StringArray) else "no"
    blocks = header.get(header.arch_key("block_count"))
    context = header.get(header.arch_key("context_length"))
    return f"Target model, {_architecture(header).lower()}, {blocks} blocks, {vocabulary} tokens, context {context}"
