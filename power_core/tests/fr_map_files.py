"""Files that rank the tokens of a draft head, whole or with one fault each, for a target of 16 tokens."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from artifact_cases import ArtifactCase

from power_core.artifacts import ValueType, scan_header, tokenizer_fingerprint
from power_core.testing.headers import GgufBytes
from power_mtp.fr_map import read_fr_map

I64, I32 = 27, 26
VOCABULARY_TOKENS = 16
IDS = (7, 3, 15, 0)
CONTRACT = "artifact.contract"


def write_target(folder: Path, tokens: int = VOCABULARY_TOKENS) -> Path:
    """Write the header of a target: only its tokenizer is read."""
    file = (
        GgufBytes()
        .with_value("general.architecture", ValueType.STRING, "qwen35")
        .with_value("tokenizer.ggml.model", ValueType.STRING, "gpt2")
        .with_array("tokenizer.ggml.tokens", ValueType.STRING, [f"<{number}>" for number in range(tokens)])
    )
    path = folder / "target.gguf"
    path.write_bytes(file.build())
    return path


def keys_of(target: Path, ids: Sequence[int], **changes: str | int) -> dict[str, tuple[ValueType, str | int]]:
    """Return the keys of a map by name."""
    values = {
        "mapping": (ValueType.STRING, "frequency_ranked"),
        "d2t_sha256": (ValueType.STRING, hashlib.sha256(struct.pack(f"<{len(ids)}q", *ids)).hexdigest()),
        "vocabulary_tokens": (ValueType.UINT32, VOCABULARY_TOKENS),
        "tokenizer_fingerprint": (ValueType.STRING, str(tokenizer_fingerprint(scan_header(target)))),
        "corpus_sha256": (ValueType.STRING, "0" * 64),
        "corpus_tokens": (ValueType.UINT64, 100),
        "covered_tokens": (ValueType.UINT64, 90),
    }
    return values | {name: (values[name][0], value) for name, value in changes.items()}


def map_bytes(
    target: Path,
    ids: Sequence[int] = IDS,
    *,
    shape: tuple[int, ...] | None = None,
    type_id: int = I64,
    tensor: str = "d2t",
    without: str = "",
    types: dict[str, ValueType] | None = None,
    missing_bytes: int = 0,
    **changes: str | int,
) -> bytes:
    """Return the bytes of a map with the changes that are named."""
    file = GgufBytes().with_value("general.architecture", ValueType.STRING, "power-fr-map")
    for name, (value_type, value) in keys_of(target, ids, **changes).items():
        if name != without:
            file = file.with_value(f"mtp.fr.{name}", (types or {}).get(name, value_type), value)
    data = struct.pack(f"<{len(ids)}q", *ids)
    whole = file.with_tensor(tensor, shape or (len(ids),), type_id).build()
    padded = data + bytes(-len(data) % 32)
    return (whole[: len(whole) - len(padded)] + padded)[: len(whole) - missing_bytes]


def _attempt(**changes: object) -> Callable[[Path], object]:
    def attempt(folder: Path) -> object:
        target = write_target(folder)
        path = folder / "map.gguf"
        path.write_bytes(map_bytes(target, **changes))  # type: ignore[arg-type]
        return read_fr_map(path, scan_header(target))

    return attempt


def _another_target(folder: Path) -> object:
    path = folder / "map.gguf"
    path.write_bytes(map_bytes(write_target(folder)))
    return read_fr_map(path, scan_header(write_target(folder, VOCABULARY_TOKENS + 1)))


def _text_file(folder: Path) -> object:
    path = folder / "map.gguf"
    path.write_text("[7, 3, 15, 0]", encoding="utf-8")
    return read_fr_map(path, scan_header(write_target(folder)))


def _cases() -> Iterator[ArtifactCase]:
    broken: tuple[tuple[str, str, str, dict[str, object]], ...] = (
        ("no-mapping-key", "a key is missing", "key", {"without": "mapping"}),
        ("no-digest-key", "the digest is missing", "key", {"without": "d2t_sha256"}),
        (
            "count-of-another-type",
            "a count is stored as another type",
            "key",
            {"types": {"corpus_tokens": ValueType.INT64}},
        ),
        ("of-another-mapping", "another way to order", "mapping", {"mapping": "alphabetical"}),
        ("without-ids", "no tensor of ids", "d2t", {"tensor": "t2d"}),
        ("with-short-ids", "ids of 32 bits", "d2t", {"type_id": I32, "shape": (8,)}),
        ("too-long", "more ids than tokens", "d2t_length", {"ids": tuple(range(17))}),
        ("of-two-dimensions", "a table", "d2t_length", {"shape": (2, 2)}),
        ("outside", "an id past the vocabulary", "d2t_range", {"ids": (7, 16, 3)}),
        ("negative", "a negative id", "d2t_range", {"ids": (7, -1, 3)}),
        ("huge", "an id of 63 bits", "d2t_range", {"ids": (7, 2**63 - 1, 3)}),
        ("repeated", "an id twice", "d2t_repeated", {"ids": (7, 3, 7)}),
        ("of-offsets", "offsets, as training code writes them", "d2t_repeated", {"ids": (0, 0, 1, 1)}),
        ("edited", "ids of another digest", "d2t_sha256", {"d2t_sha256": "1" * 64}),
        ("covering-more-than-all", "more covered than counted", "coverage", {"covered_tokens": 101}),
        ("covering-nothing", "nothing covered", "coverage", {"covered_tokens": 0}),
    )
    for name, fault, check, changes in broken:
        yield ArtifactCase(
            name=f"map-{name}", fault=fault, attempt=_attempt(**changes), code=CONTRACT, check_id=f"fr-map.{check}"
        )
    yield ArtifactCase(
        name="map-of-another-target",
        fault="built for another tokenizer",
        attempt=_another_target,
        code="artifact.pairing",
        check_id="fr-map.target",
    )
    yield ArtifactCase(
        name="map-cut",
        fault="cut off",
        attempt=_attempt(missing_bytes=8),
        code="artifact.format",
        check_id="gguf.truncated",
    )
    yield ArtifactCase(
        name="map-as-text",
        fault="a list in a text file",
        attempt=_text_file,
        code="artifact.format",
        check_id="gguf.magic",
    )


CASES: tuple[ArtifactCase, ...] = tuple(_cases())
