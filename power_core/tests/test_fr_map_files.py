"""Every file that cannot rank a draft head's tokens is refused with its own error, and none is used in part."""

import pytest
from artifact_cases import error_of
from fr_map_files import CASES, IDS, map_bytes, write_target
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.artifacts import scan_header
from power_core.errors import ArtifactError
from power_mtp.fr_map import FrMapValidator, read_fr_map


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_map_is_refused(case, tmp_path):
    error = error_of(case, tmp_path)
    assert error.hint


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.code == "artifact.contract"], ids=lambda case: case.name
)
def test_the_validator_finds_the_same_fault_without_the_target(case, tmp_path):
    error_of(case, tmp_path)
    report = FrMapValidator().validate(scan_header(tmp_path / "map.gguf"))
    assert report.failures[0].id == case.check_id


def test_a_whole_map_is_read(tmp_path):
    target = write_target(tmp_path)
    path = tmp_path / "map.gguf"
    path.write_bytes(map_bytes(target))
    header = scan_header(path)
    assert FrMapValidator().matches(header)
    assert not FrMapValidator().matches(scan_header(target))
    assert FrMapValidator().validate(header).ok
    assert read_fr_map(path, scan_header(target)).token_ids.tolist() == list(IDS)


@settings(max_examples=100)
@given(at=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_changed_byte_is_refused_or_changes_no_id(tmp_path_factory, at, value):
    folder = tmp_path_factory.mktemp("maps")
    target = write_target(folder)
    data = bytearray(map_bytes(target))
    data[at % len(data)] = value
    path = folder / "map.gguf"
    path.write_bytes(bytes(data))
    try:
        fr_map = read_fr_map(path, scan_header(target))
    except ArtifactError:
        return
    assert fr_map.token_ids.tolist() == list(IDS)
