"""Identity of a file: size, digest, tokenizer fingerprint, and their verification."""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs
import pytest

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.artifacts.identity import ArtifactIdentity, identify, tokenizer_fingerprint, verify_identity
from power_core.errors import ArtifactContractError, ArtifactDigestMismatch, ArtifactFormatError, ArtifactNotFoundError
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
    identity = identify(path)
    assert identity == ArtifactIdentity(
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        architecture="qwen3",
        tokenizer_fingerprint=tokenizer_fingerprint(scan_header(path)),
    )
    verify_identity(path, identity)
    verify_identity(path, attrs.evolve(identity, sha256=identity.sha256.upper()))


def test_progress_reports_every_chunk_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power_core.artifacts.identity.CHUNK_BYTES", 100)
    path = write(tmp_path / "m.gguf", minimal_target())
    size_bytes = path.stat().st_size
    seen: list[tuple[int, int]] = []
    identity = identify(path, lambda done, total: seen.append((done, total)))
    assert seen == [(min(100 * i, size_bytes), size_bytes) for i in range(1, -(-size_bytes // 100) + 1)]
    assert identity == identify(path)


def test_another_size_is_found_without_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", minimal_target())
    identity = identify(path)
    path.write_bytes(path.read_bytes() + b"\0")
    seen: list[tuple[int, int]] = []
    with pytest.raises(ArtifactDigestMismatch) as caught:
        verify_identity(path, identity, lambda done, total: seen.append((done, total)))
    assert (caught.value.check_id, caught.value.expected) == ("identity.size", identity.size_bytes)
    assert seen == []


def test_another_byte_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", minimal_target())
    identity = identify(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactDigestMismatch, match=r"SHA-256") as caught:
        verify_identity(path, identity)
    assert caught.value.check_id == "identity.sha-256"
    assert caught.value.expected == identity.sha256
    assert caught.value.actual == hashlib.sha256(content).hexdigest()


def test_file_that_grows_while_it_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power_core.artifacts.identity.CHUNK_BYTES", 100)
    path = write(tmp_path / "m.gguf", minimal_target())

    def grow(done_bytes: int, _: int) -> None:
        if done_bytes == 100:
            with path.open("ab") as handle:
                handle.write(b"more")

    with pytest.raises(ArtifactDigestMismatch, match="while hashing"):
        identify(path, grow)


def test_absent_and_broken_files(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", minimal_target())
    identity = identify(path)
    path.unlink()
    with pytest.raises(ArtifactNotFoundError):
        verify_identity(path, identity)
    with pytest.raises(ArtifactNotFoundError):
        identify(path)
    path.write_text("text")
    with pytest.raises(ArtifactFormatError):
        identify(path)
    write(path, GgufBytes())
    with pytest.raises(ArtifactContractError, match=r"general\.architecture"):
        identify(path)


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
