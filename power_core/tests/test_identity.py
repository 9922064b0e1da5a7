"""Identity of a file: size, digest, tokenizer fingerprint."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.artifacts.identity import ArtifactIdentity, hash_files, identify, tokenizer_fingerprint
from power_core.errors import ArtifactContractError, ArtifactDigestMismatch, ArtifactNotFoundError
from power_core.testing.headers import GgufBytes, minimal_target

STRING, U32, BOOL = ValueType.STRING, ValueType.UINT32, ValueType.BOOL


def write(path: Path, content: GgufBytes) -> Path:
    path.write_bytes(content.build())
    return path


def tokenizer(
    *, model: str = "gpt2", pre: str | None = "qwen2", tokens: list[bytes], eos: int | None = 1, add_bos: bool = False
) -> GgufBytes:
    content = GgufBytes().with_value("tokenizer.ggml.model", STRING, model)
    if pre is not None:
        content = content.with_value("tokenizer.ggml.pre", STRING, pre)
    if eos is not None:
        content = content.with_value("tokenizer.ggml.eos_token_id", U32, eos)
    content = content.with_value("tokenizer.ggml.add_bos_token", BOOL, add_bos)
    return content.with_array("tokenizer.ggml.tokens", STRING, tokens)


def test_identity_is_size_digest_architecture_and_tokenizer(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", minimal_target())
    content = path.read_bytes()
    identity = identify(scan_header(path))
    assert identity == ArtifactIdentity(
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        architecture="qwen3",
        tokenizer_fingerprint=tokenizer_fingerprint(scan_header(path)),
    )
    assert hash_files([path, path], [len(content)] * 2) == hashlib.sha256(content * 2).hexdigest()


def test_progress_reports_every_chunk_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power_core.artifacts.identity.CHUNK_BYTES", 100)
    path = write(tmp_path / "m.gguf", minimal_target())
    size_bytes = path.stat().st_size
    seen: list[tuple[int, int]] = []
    identity = identify(scan_header(path), lambda done, total: seen.append((done, total)))
    assert seen == [(min(100 * i, size_bytes), size_bytes) for i in range(1, -(-size_bytes // 100) + 1)]
    assert identity == identify(scan_header(path))


def test_file_that_grows_while_it_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power_core.artifacts.identity.CHUNK_BYTES", 100)
    path = write(tmp_path / "m.gguf", minimal_target())

    def grow(done_bytes: int, _: int) -> None:
        if done_bytes == 100:
            with path.open("ab") as handle:
                handle.write(b"more")

    with pytest.raises(ArtifactDigestMismatch, match="while hashing"):
        identify(scan_header(path), grow)


def test_files_that_cannot_be_measured(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", minimal_target())
    header = scan_header(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ArtifactDigestMismatch, match="while hashing"):
        identify(header)
    path.unlink()
    with pytest.raises(ArtifactNotFoundError):
        identify(header)
    with pytest.raises(ArtifactContractError, match=r"general\.architecture"):
        identify(scan_header(write(path, GgufBytes())))


def test_fingerprint_depends_on_the_tokenizer_alone(tmp_path: Path) -> None:
    first = scan_header(write(tmp_path / "a.gguf", tokenizer(tokens=[b"a", b"b"])))
    other = tokenizer(tokens=[b"a", b"b"]).with_value("general.name", STRING, "other").with_tensor("t")
    assert tokenizer_fingerprint(first) == tokenizer_fingerprint(scan_header(write(tmp_path / "b.gguf", other)))


@pytest.mark.parametrize(
    "changed",
    [
        tokenizer(tokens=[b"a", b"c"]),
        tokenizer(tokens=[b"b", b"a"]),
        tokenizer(tokens=[b"ab", b""]),
        tokenizer(tokens=[b"a", b"b", b""]),
        tokenizer(tokens=[b"a", b"\xff"]),
        tokenizer(tokens=[b"a", b"b"], model="llama"),
        tokenizer(tokens=[b"a", b"b"], pre="llama3"),
        tokenizer(tokens=[b"a", b"b"], pre=None),
        tokenizer(tokens=[b"a", b"b"], pre=""),
        tokenizer(tokens=[b"a", b"b"], pre="absent"),
        tokenizer(tokens=[b"a", b"b"], eos=0),
        tokenizer(tokens=[b"a", b"b"], eos=None),
        tokenizer(tokens=[b"a", b"b"], add_bos=True),
        tokenizer(tokens=[b"a", b"b"]).with_value("tokenizer.ggml.bos_token_id", U32, 0),
        tokenizer(tokens=[b"a", b"b"]).with_value("tokenizer.ggml.add_eos_token", BOOL, False),
    ],
)
def test_fingerprint_changes_with_every_part(tmp_path: Path, changed: GgufBytes) -> None:
    base = tokenizer_fingerprint(scan_header(write(tmp_path / "a.gguf", tokenizer(tokens=[b"a", b"b"]))))
    found = tokenizer_fingerprint(scan_header(write(tmp_path / "b.gguf", changed)))
    assert found is not None
    assert found != base


def test_no_fingerprint_without_tokens(tmp_path: Path) -> None:
    assert tokenizer_fingerprint(scan_header(write(tmp_path / "a.gguf", GgufBytes()))) is None
    numbers = GgufBytes().with_array("tokenizer.ggml.tokens", U32, [1])
    with pytest.raises(ArtifactContractError, match="expected array of STRING"):
        tokenizer_fingerprint(scan_header(write(tmp_path / "b.gguf", numbers)))
