"""Manifests by themselves: form, digest, strict reading of whatever lies in their place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import attrs
import pytest
from admission_files import PROVENANCE, admitted_pair
from hypothesis import given
from hypothesis import strategies as st

from power_core.admission import Manifest, Provenance, manifest_path, read_manifest
from power_core.admission.manifest_file import MAX_MANIFEST_BYTES, write_manifest
from power_core.errors import ArtifactError

FIELDS = [
    "schema",
    "source",
    "revision",
    "license",
    "kind",
    "draft",
    "target",
    "tokenizer",
    "admitted_at",
    "power_core",
    "digest",
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return admitted_pair(tmp_path_factory.mktemp("written")).manifest


@pytest.fixture(scope="module")
def manifest(written: Path) -> Manifest:
    return read_manifest(written)


def test_the_file_holds_the_fields_of_the_schema_and_no_path(written: Path):
    text = written.read_text(encoding="ascii")
    values = json.loads(text)
    assert sorted(values) == sorted(FIELDS)
    assert [*values][:: len(values) - 1] == ["schema", "digest"]
    assert list(values["draft"]) == ["file", "size_bytes", "sha256", "architecture"]
    assert list(values["target"]) == ["size_bytes", "sha256", "architecture"]
    assert list(values["tokenizer"]) == ["model", "fingerprint", "tokens"]
    assert str(written.parent) not in text
    assert text.endswith("}\n")


def test_the_digest_is_over_sorted_names_without_spaces(written: Path):
    values = json.loads(written.read_text())
    digest = values.pop("digest")
    canonical = json.dumps(dict(sorted(values.items())), sort_keys=True, separators=(",", ":"))
    assert " " not in canonical.replace("Apache-2.0", "")
    assert digest == hashlib.sha256(canonical.encode()).hexdigest()


def test_reading_returns_what_was_written(tmp_path: Path, manifest: Manifest):
    texts = attrs.evolve(manifest, source="Grüße 漢字 \U0001f600", revision='"\\', license="MIT")
    path = tmp_path / "d.gguf.admission.json"
    write_manifest(path, texts)
    assert read_manifest(path) == texts
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_order_and_layout_of_the_json_do_not_matter(tmp_path: Path, written: Path, manifest: Manifest):
    values = json.loads(written.read_text())
    path = tmp_path / "m.json"
    path.write_text(json.dumps(dict(reversed(values.items())), indent=7))
    assert read_manifest(path) == manifest


def test_the_longest_manifest_can_be_read_back(tmp_path: Path, manifest: Manifest):
    longest = "\U0001f600" * 2_000
    texts = ("source", "revision", "license", "power_core")
    values = attrs.evolve(
        manifest,
        draft=attrs.evolve(manifest.draft, file=longest, architecture=longest),
        target=attrs.evolve(manifest.target, architecture=longest),
        tokenizer=attrs.evolve(manifest.tokenizer, model=longest),
        kind="k" * 100,
        **dict.fromkeys(texts, longest),
    )
    path = tmp_path / "m.json"
    write_manifest(path, values)
    assert path.stat().st_size <= MAX_MANIFEST_BYTES
    assert read_manifest(path) == values


@pytest.mark.parametrize("field", ["source", "revision", "license"])
@pytest.mark.parametrize("text", ["", " ", " a", "a\n", "a\nb", "\x1b[2J", "a" * 2_001, "\udcff", "\u202e"])
def test_provenance_is_a_line_of_text(field: str, text: str):
    with pytest.raises(ValueError, match=f"{field} is .*, expected 1 to 2000 printable characters"):
        attrs.evolve(PROVENANCE, **{field: text})
    assert Provenance(source="a", revision="b", license="c").source == "a"


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, written: Path, manifest: Manifest, place: int, bit: int
):
    data = bytearray(written.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path = tmp_path_factory.getbasetemp() / "flipped.admission.json"
    path.write_bytes(data)
    assert read_or_none(path) in (None, manifest)


@given(length=st.integers(0, 2_000))
def test_any_truncation_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, written: Path, manifest: Manifest, length: int
):
    data = written.read_bytes()
    path = tmp_path_factory.getbasetemp() / "cut.admission.json"
    path.write_bytes(data[:length])
    assert read_or_none(path) == (manifest if length >= len(data) - 1 else None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=6),
    max_leaves=12,
)


@given(value=JSON, place=st.sampled_from([*FIELDS[1:], ""]))
def test_any_json_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, written: Path, value: object, place: str
):
    values = json.loads(written.read_text())
    path = tmp_path_factory.getbasetemp() / "any.admission.json"
    unchanged = place != "" and values[place] == value
    path.write_text(json.dumps({**values, place: value} if place else value))
    assert (read_or_none(path) is not None) is unchanged


@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    path = tmp_path_factory.getbasetemp() / "bytes.admission.json"
    path.write_bytes(data)
    assert read_or_none(path) is None


def read_or_none(path: Path) -> Manifest | None:
    """Read; anything raised but a typed error with a check id is a failure of the test."""
    try:
        return read_manifest(path)
    except ArtifactError as error:
        refused = error
    assert refused.check_id.startswith("admission.")
    assert str(path) in str(refused)
    assert len(str(refused)) < 4_000
    return None


def test_the_manifest_lies_beside_the_draft_as_it_was_named():
    assert manifest_path(Path("d.gguf")) == Path("d.gguf.admission.json")
    assert manifest_path(Path("a/b/d")) == Path("a/b/d.admission.json")
    assert manifest_path(Path()) == Path(".admission.json")
