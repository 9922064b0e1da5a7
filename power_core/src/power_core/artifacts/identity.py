"""Which bytes a model's files hold: size, SHA-256, architecture, and a fingerprint of its tokenizer.

Shards of a split model count as one file, in their order: ``cat NAME-*-of-*.gguf | sha256sum`` prints the same digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs

from power_core.artifacts.gguf import GgufHeader, StringArray, ValueType
from power_core.artifacts.shards import model_paths
from power_core.errors import ArtifactDigestMismatch, ArtifactNotFoundError

HashProgress: TypeAlias = Callable[[int, int], None]

CHUNK_BYTES = 4 << 20
FINGERPRINT_DOMAIN = b"power.tokenizer.v1\0"
FINGERPRINT_KEYS = (
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_eos_token",
)


@attrs.frozen(kw_only=True)
class ArtifactIdentity:
    """Identity of one model.

    Attributes:
        size_bytes: Size of its files together.
        sha256: 64 lower-case hex digits over all bytes, shard after shard.
        architecture: ``general.architecture``.
        tokenizer_fingerprint: 64 lower-case hex digits; equal for files whose token ids mean the same. None when the
            file has no token list.
    """

    size_bytes: int
    sha256: str
    architecture: str
    tokenizer_fingerprint: str | None


def identify(header: GgufHeader, progress: HashProgress | None = None) -> ArtifactIdentity:
    """Hash the files of a model whose header is scanned; the first shard of a split model stands for all of them.

    Args:
        header: Of a GGUF file.
        progress: Called with ``(done_bytes, total_bytes)`` after every chunk.

    Raises:
        ArtifactNotFoundError, ArtifactFormatError, ArtifactContractError: a shard is missing or foreign.
        ArtifactDigestMismatch: a file changed its size after it was scanned, or while it was hashed.
    """
    paths = model_paths(header)
    sizes = [header.file_bytes, *(_size_bytes(path) for path in paths[1:])]
    return ArtifactIdentity(
        size_bytes=sum(sizes),
        sha256=hash_files(paths, sizes, progress),
        architecture=header.architecture,
        tokenizer_fingerprint=tokenizer_fingerprint(header),
    )


def tokenizer_fingerprint(header: GgufHeader) -> str | None:
    """Hash what gives token ids their meaning: tokenizer model and pre-tokenizer, BOS and EOS, every token's bytes.

    Every field is preceded by its length, and an absent key differs from every value. None without a token list.

    Raises:
        ArtifactContractError: ``tokenizer.ggml.tokens`` is not an array of strings.
    """
    if header.get("tokenizer.ggml.tokens") is None:
        return None
    tokens: StringArray = header.require_array("tokenizer.ggml.tokens", ValueType.STRING)
    digest = hashlib.sha256(FINGERPRINT_DOMAIN)
    for key in FINGERPRINT_KEYS:
        value = header.get(key)
        field = b"absent" if value is None else b"value:" + str(value).encode("utf-8", "surrogateescape")
        digest.update(len(field).to_bytes(8, "little") + field)
    digest.update(len(tokens).to_bytes(8, "little"))
    digest.update(tokens.data)
    return digest.hexdigest()


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error


def hash_files(paths: Sequence[Path], sizes: Sequence[int], progress: HashProgress | None = None) -> str:
    """Return the SHA-256 of files one after the other, whatever they hold.

    Raises:
        ArtifactNotFoundError: a file cannot be read.
        ArtifactDigestMismatch: a file has another size than the one given.
    """
    digest = hashlib.sha256()
    done_bytes, total_bytes = 0, sum(sizes)
    for path, size_bytes in zip(paths, sizes, strict=True):
        for chunk in _read_chunks(path, size_bytes):
            digest.update(chunk)
            done_bytes += len(chunk)
            if progress is not None:
                progress(done_bytes, total_bytes)
    return digest.hexdigest()


def _read_chunks(path: Path, size_bytes: int) -> Iterator[bytes]:
    """Yield the file's bytes; ends with an error as soon as there are more or fewer than ``size_bytes``."""
    found_bytes = 0
    try:
        with path.open("rb") as handle:
            while found_bytes <= size_bytes and (chunk := handle.read(CHUNK_BYTES)):
                found_bytes += len(chunk)
                yield chunk
    except OSError as error:
        raise _unreadable(path, error) from error
    if found_bytes != size_bytes:
        raise _mismatch(path, "size while hashing", size_bytes, found_bytes)


def _unreadable(path: Path, error: OSError) -> ArtifactNotFoundError:
    return ArtifactNotFoundError(
        f"{path} cannot be read: {error.strerror}", path=str(path), hint="check the path and its permissions"
    )


def _mismatch(path: Path, what: str, expected: object, actual: object) -> ArtifactDigestMismatch:
    return ArtifactDigestMismatch(
        f"{path} has {what} {actual}, recorded was {expected}",
        path=str(path),
        check_id=f"identity.{what.split()[0].lower()}",
        expected=expected,
        actual=actual,
        hint="the file was replaced or damaged; restore it, or record the new file",
    )
