"""Side files that say which tokens a draft head of fewer rows is for: GGUF files with one tensor, ``d2t``.

``d2t`` holds the target's token id of every row, most frequent first, as I64; row and id are absolute, not offsets.
``mtp.fr.*`` says from which text the order was counted and for which tokenizer, and carries the ids' own digest.

Source: power_reference.md section 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.artifacts import (
    CheckList,
    GgufHeader,
    ValidationReport,
    ValueType,
    scan_header,
    tokenizer_fingerprint,
)
from power_core.artifacts.draft_vocabulary import read_token_ids
from power_core.errors import ArtifactPairingError
from power_core.whole_file import whole_file

KIND = "fr-map"
ARCHITECTURE = "power-fr-map"
MAPPING, TENSOR = "frequency_ranked", "d2t"
KEYS: Mapping[str, ValueType] = {
    "mtp.fr.mapping": ValueType.STRING,
    "mtp.fr.d2t_sha256": ValueType.STRING,
    "mtp.fr.vocabulary_tokens": ValueType.UINT32,
    "mtp.fr.tokenizer_fingerprint": ValueType.STRING,
    "mtp.fr.corpus_sha256": ValueType.STRING,
    "mtp.fr.corpus_tokens": ValueType.UINT64,
    "mtp.fr.covered_tokens": ValueType.UINT64,
}


@attrs.frozen(kw_only=True, eq=False)
class FrMap:
    """Tokens of a draft head, most frequent first.

    Attributes:
        token_ids: int64[rows], different token ids of the target.
        vocabulary_tokens: Tokens of the target.
        tokenizer_fingerprint: Of the target, ``power_core.artifacts.tokenizer_fingerprint``.
        corpus_sha256: Digest of the text that was counted, file after file.
        corpus_tokens: Tokens of that text.
        covered_tokens: Those of them that are among ``token_ids``. Their share says nothing about acceptance.
    """

    token_ids: NDArray[np.int64]
    vocabulary_tokens: int
    tokenizer_fingerprint: str
    corpus_sha256: str
    corpus_tokens: int
    covered_tokens: int

    @property
    def d2t_sha256(self) -> str:
        """Digest of the ids as little-endian 64-bit integers: the identity of the map."""
        return hashlib.sha256(self.token_ids.astype("<i8").tobytes()).hexdigest()


class FrMapValidator:
    """Validates the side files (``power_core.artifacts.ArtifactValidator``)."""

    kind = KIND
    describe = "the tokens of a draft head of fewer rows"

    def matches(self, header: GgufHeader) -> bool:
        """True for the files that ``write_fr_map`` writes."""
        return header.get("general.architecture") == ARCHITECTURE

    def validate(self, header: GgufHeader) -> ValidationReport:
        """Check all that can be said without a target. Never raises for what a file holds."""
        checks = CheckList(KIND)
        _read(header, checks)
        return checks.report(KIND, header.path)


def read_fr_map(path: Path, target: GgufHeader) -> FrMap:
    """Read a map and check it for a target.

    Raises:
        ArtifactNotFoundError: no readable regular file.
        ArtifactFormatError: no GGUF that can be read.
        ArtifactContractError: no map, or ids that are missing, out of range, repeated or damaged.
        ArtifactPairingError: the map was built for another tokenizer (``fr-map.target``).
    """
    header = scan_header(path)
    checks = CheckList(KIND)
    fr_map = _read(header, checks)
    checks.report(KIND, path).raise_first()
    assert fr_map is not None
    fingerprint = tokenizer_fingerprint(target)
    if fr_map.tokenizer_fingerprint != fingerprint:
        raise ArtifactPairingError(
            f"{path} was built for the tokenizer {fr_map.tokenizer_fingerprint}, the target has {fingerprint}",
            path=str(path),
            check_id=f"{KIND}.target",
            expected=fingerprint,
            actual=fr_map.tokenizer_fingerprint,
            hint="build the map again with `power-fr-map`, for this target",
        )
    return fr_map


def write_fr_map(path: Path, fr_map: FrMap) -> None:
    """Write a map: whole or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    from gguf import GGUFWriter

    with whole_file(path) as partial, closing(GGUFWriter(partial, ARCHITECTURE)) as writer:
        writer.add_string("mtp.fr.mapping", MAPPING)
        writer.add_string("mtp.fr.d2t_sha256", fr_map.d2t_sha256)
        writer.add_uint32("mtp.fr.vocabulary_tokens", fr_map.vocabulary_tokens)
        writer.add_string("mtp.fr.tokenizer_fingerprint", fr_map.tokenizer_fingerprint)
        writer.add_string("mtp.fr.corpus_sha256", fr_map.corpus_sha256)
        writer.add_uint64("mtp.fr.corpus_tokens", fr_map.corpus_tokens)
        writer.add_uint64("mtp.fr.covered_tokens", fr_map.covered_tokens)
        writer.add_tensor(TENSOR, fr_map.token_ids)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()


def _read(header: GgufHeader, checks: CheckList) -> FrMap | None:
    """Check a header, then the ids; None when there is no map to speak of."""
    if not _check_header(header, checks):
        return None
    ids = read_token_ids(header, header.tensors[TENSOR], header.require("mtp.fr.vocabulary_tokens"), checks)
    if ids is None:
        return None
    fr_map = FrMap(
        token_ids=ids,
        vocabulary_tokens=header.require("mtp.fr.vocabulary_tokens"),
        tokenizer_fingerprint=header.require("mtp.fr.tokenizer_fingerprint"),
        corpus_sha256=header.require("mtp.fr.corpus_sha256"),
        corpus_tokens=header.require("mtp.fr.corpus_tokens"),
        covered_tokens=header.require("mtp.fr.covered_tokens"),
    )
    _check_values(header, fr_map, checks)
    return fr_map


def _check_header(header: GgufHeader, checks: CheckList) -> bool:
    """Check what can be said before the ids are read; each check rests on those before it."""
    for key, wanted in KEYS.items():
        found = header.types.get(key, (None, None))[0]
        message = f"the key '{key}' is {'missing' if found is None else f'of type {found.name}'}"
        if not checks.add("key", found is wanted, message, expected=f"'{key}' of type {wanted.name}", actual=found):
            return False
    mapping = header.get("mtp.fr.mapping")
    if not checks.add("mapping", mapping == MAPPING, f"the mapping is {mapping!r}", expected=MAPPING, actual=mapping):
        return False
    tensor = header.tensors.get(TENSOR)
    found_type = None if tensor is None else tensor.type_name
    message = f"tensor '{TENSOR}' is {'missing' if found_type is None else f'stored as {found_type}'}"
    return checks.add("d2t", found_type == "I64", message, expected=f"'{TENSOR}' as I64", actual=found_type)


def _check_values(header: GgufHeader, fr_map: FrMap, checks: CheckList) -> None:
    recorded = header.get("mtp.fr.d2t_sha256")
    checks.add(
        "d2t_sha256",
        recorded == fr_map.d2t_sha256,
        f"'{TENSOR}' has the digest {fr_map.d2t_sha256}, recorded was {recorded}",
        expected=recorded,
        actual=fr_map.d2t_sha256,
    )
    checks.add(
        "coverage",
        0 < fr_map.covered_tokens <= fr_map.corpus_tokens,
        f"{fr_map.covered_tokens} of {fr_map.corpus_tokens} tokens are said to be covered",
        expected="1 up to the tokens of the corpus",
        actual=fr_map.covered_tokens,
    )
