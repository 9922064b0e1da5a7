"""What the built library exports, needs and carries, read from the ELF file itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from elf_facts import SYSTEM_LIBRARIES, dynamic_values, exported_names, searched_folders
from elftools.elf.elffile import ELFFile

import power_native
from power_native import _raw
from power_native._locate import find_library

pytestmark = pytest.mark.native

ALLOWED = SYSTEM_LIBRARIES | {"ld-linux-aarch64.so.1"}
BYTES_LIMIT = 32_000_000


@pytest.fixture(scope="module")
def library() -> Path:
    return find_library(list(power_native.__path__))


@pytest.fixture
def elf(library: Path) -> Iterator[ELFFile]:
    with library.open("rb") as stream:
        yield ELFFile(stream)


def test_exactly_the_functions_of_the_header_are_exported(elf: ELFFile) -> None:
    assert exported_names(elf) == set(_raw.FUNCTIONS)


def test_only_libraries_of_the_allow_list_are_needed(elf: ELFFile) -> None:
    assert dynamic_values(elf, "DT_NEEDED", "needed") <= ALLOWED


def test_no_folder_of_the_build_is_searched_for_libraries(elf: ELFFile) -> None:
    paths = searched_folders(elf)
    assert {path for path in paths if not path.startswith("$ORIGIN")} == set()


def test_the_library_is_stripped_and_of_a_reasonable_size(elf: ELFFile, library: Path) -> None:
    assert elf.get_section_by_name(".symtab") is None
    assert library.stat().st_size < BYTES_LIMIT


def test_licences_and_the_build_record_are_beside_the_library(library: Path) -> None:
    licences = library.parent / "licenses"
    assert "The ggml authors" in (licences / "llama.cpp-LICENSE").read_text()
    assert "Mozilla Foundation" in (licences / "llamafile-LICENSE").read_text()
    assert json.loads((library.parent / "_build.json").read_text())["library"] == library.name
