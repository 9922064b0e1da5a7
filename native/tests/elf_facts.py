"""What an ELF file says of itself: the functions it exports, the libraries and folders it names."""

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

# Present wherever Python and a C++ program run on x86-64.
SYSTEM_LIBRARIES = {
    "libc.so.6",
    "libm.so.6",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libgomp.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
}


def dynamic_values(elf: ELFFile, tag: str, attribute: str) -> set[str]:
    section = elf.get_section_by_name(".dynamic")
    assert isinstance(section, DynamicSection)
    return {getattr(entry, attribute) for entry in section.iter_tags(tag)}


def searched_folders(elf: ELFFile) -> set[str]:
    return dynamic_values(elf, "DT_RUNPATH", "runpath") | dynamic_values(elf, "DT_RPATH", "rpath")


def exported_names(elf: ELFFile) -> set[str]:
    table = elf.get_section_by_name(".dynsym")
    assert isinstance(table, SymbolTableSection)
    return {symbol.name for symbol in table.iter_symbols() if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"}
