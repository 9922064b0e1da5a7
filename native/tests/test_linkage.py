"""What the built library exports, needs and carries, read from the ELF file itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import power_native
from power_native import _raw
from power_native._locate import find_library

pytestmark = pytest.mark.native

# Present wherever Python and a C++ program run; a GPU build adds its driver's libraries.
ALLOWED = {
    "libc.so.6",
    "libm.so.6",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libgomp.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
BYTES_LIMIT = 32_000_000


@pytest.fixture(scope="module")
def library() -> Path:
    return find_library(list(power_native.__path__))


@pytest.fixture
def elf(library: Path) -> Iterator[ELFFile]:
    with library.open("rb") as stream:
        yield ELFFile(stream)


def dynamic_values(elf: ELFFile, tag: str, attribute: str) -> set[str]:
    section = elf.get_section_by_name(".dynamic")
    assert isinstance(section, DynamicSection)
    return {getattr(entry, attribute) for entry in section.iter_tags(tag)}


def test_exactly_the_functions_of_the_header_are_exported(elf: ELFFile) -> None:
    table = elf.get_section_by_name(".dynsym")
    assert isinstance(table, SymbolTableSection)
    exported = {symbol.name for symbol in table.iter_symbols() if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"}
    assert exported == set(_raw.FUNCTIONS)


def test_only_libraries_of_the_allow_list_are_needed(elf: ELFFile) -> None:
    assert dynamic_values(elf, "DT_NEEDED", "needed") <= ALLOWED


def test_no_folder_of_the_build_is_searched_for_libraries(elf: ELFFile) -> None:
    paths = dynamic_values(elf, "DT_RUNPATH", "runpath") | dynamic_values(elf, "DT_RPATH", "rpath")
    assert {path for path in paths if not path.startswith("$ORIGIN")} == set()


def test_the_library_is_stripped_and_of_a_reasonable_size(elf: ELFFile, library: Path) -> None:
    assert elf.get_section_by_name(".symtab") is None
    assert library.stat().st_size < BYTES_LIMIT


def test_licences_and_the_build_record_are_beside_the_library(library: Path) -> None:
    licences = library.parent / "licenses"
    assert "The ggml authors" in (licences / "llama.cpp-LICENSE").read_text()
    assert "Mozilla Foundation" in (licences / "llamafile-LICENSE").read_text()
    assert json.loads((library.parent / "_build.json").read_text())["library"] == library.name
