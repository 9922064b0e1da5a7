"""Every way in which the library can be absent or wrong has its own message (fixture F8 of the bug catalogue)."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import power_native
from power_core.errors import AbiMismatchError, LibraryNotFoundError, NativeError
from power_native import _cpu, _loader, _locate, _raw

POWER_ROWS = _raw.power_rows


def test_missing_file_named_by_the_variable_is_not_replaced_by_another(monkeypatch, tmp_path):
    monkeypatch.setenv(_locate.VARIABLE, str(tmp_path / "absent.so"))
    with pytest.raises(LibraryNotFoundError, match=r"POWER_NATIVE_LIBRARY is .*absent\.so.* does not exist") as caught:
        _locate.find_library([str(tmp_path)])
    assert caught.value.code == "native.not_found"
    assert "POWER_NATIVE_LIBRARY" in caught.value.hint


def test_variable_naming_a_folder_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(_locate.VARIABLE, str(tmp_path))
    with pytest.raises(LibraryNotFoundError, match="is a folder"):
        _locate.find_library([])


def test_not_found_lists_every_path_and_says_how_to_build(monkeypatch, tmp_path):
    monkeypatch.delenv(_locate.VARIABLE, raising=False)
    monkeypatch.setattr(_locate.importlib.metadata, "files", lambda name: [])
    folders = [str(tmp_path / "one"), str(tmp_path / "two")]
    with pytest.raises(LibraryNotFoundError) as caught:
        _locate.find_library(folders)
    for folder in folders:
        assert str(Path(folder) / _locate.library_name()) in str(caught.value)
    assert _locate.VARIABLE in str(caught.value)
    assert "pip install" in caught.value.hint


def test_package_folders_are_searched_before_the_distribution(monkeypatch, tmp_path):
    monkeypatch.delenv(_locate.VARIABLE, raising=False)
    library = tmp_path / _locate.library_name()
    library.write_bytes(b"")
    assert _locate.find_library([str(tmp_path)]) == library.resolve()


def test_distribution_record_is_searched_last(monkeypatch, tmp_path):
    monkeypatch.delenv(_locate.VARIABLE, raising=False)
    library = tmp_path / "elsewhere" / _locate.library_name()
    library.parent.mkdir()
    library.write_bytes(b"")

    class Recorded:
        name = library.name

        def locate(self):
            return library

    monkeypatch.setattr(_locate.importlib.metadata, "files", lambda name: [Recorded()])
    assert _locate.find_library([str(tmp_path)]) == library.resolve()


@pytest.mark.parametrize(
    ("platform", "name"),
    [("linux", "libpower_native.so"), ("darwin", "libpower_native.dylib"), ("win32", "power_native.dll")],
)
def test_library_name_per_platform(platform, name):
    assert _locate.library_name(platform) == name


def test_text_file_cannot_be_opened_and_the_loader_says_why(tmp_path):
    path = tmp_path / "text.so"
    path.write_text("not a library")
    with pytest.raises(LibraryNotFoundError, match="cannot be opened") as caught:
        _loader.open_library(path)
    assert caught.value.code == "native.cannot_open"
    assert caught.value.detail in str(caught.value)


def test_lost_dependency_is_named(library_with_lost_dependency):
    with pytest.raises(LibraryNotFoundError, match=r"liblost\.so") as caught:
        _loader.open_library(library_with_lost_dependency)
    assert caught.value.code == "native.cannot_open"


def test_foreign_library_lacks_the_first_symbol(build_fake):
    path = build_fake(without=("power_abi_version", "power_struct_layout"))
    with pytest.raises(AbiMismatchError, match="lacks `power_abi_version`, `power_struct_layout`") as caught:
        _loader.open_library(path)
    assert caught.value.code == "native.symbol"
    assert caught.value.symbol == "power_abi_version"


def test_missing_symbol_is_named(build_fake):
    with pytest.raises(AbiMismatchError, match="lacks `power_draft_chain`") as caught:
        _loader.open_library(build_fake(without=("power_draft_chain",)))
    assert caught.value.code == "native.symbol"


def test_another_abi_names_both_numbers(build_fake):
    words = f"has ABI 99, this package needs ABI {_raw.POWER_ABI_VERSION}"
    with pytest.raises(AbiMismatchError, match=words) as caught:
        _loader.open_library(build_fake(abi=99))
    assert caught.value.code == "native.abi"


def test_shifted_structure_is_listed_member_by_member(build_fake):
    shifted = {("power_rows", "tokens"): 16, ("power_rows", "states"): 96}
    with pytest.raises(AbiMismatchError) as caught:
        _loader.open_library(build_fake(offsets=shifted, sizes={"power_rows": 104}))
    message = str(caught.value)
    assert f"power_rows: 104 bytes in the library, {_loader.ctypes.sizeof(POWER_ROWS)} in Python" in message
    assert f"power_rows.tokens: offset 16 in the library, {POWER_ROWS.tokens.offset} in Python" in message
    assert f"power_rows.states: offset 96 in the library, {POWER_ROWS.states.offset} in Python" in message
    assert "power_rows.positions" not in message


def test_reordered_members_of_equal_size_are_found(build_fake):
    swapped = {
        ("power_chain", "first_pos"): _raw.power_chain.token.offset,
        ("power_chain", "token"): _raw.power_chain.first_pos.offset,
    }
    with pytest.raises(AbiMismatchError, match=r"power_chain\.first_pos: offset 12 .*\n.*power_chain\.token: offset 8"):
        _loader.open_library(build_fake(offsets=swapped))


def test_library_for_another_cpu_is_refused(build_fake, monkeypatch):
    monkeypatch.setattr(_cpu, "cpu_flags", lambda: frozenset({"avx2"}))
    with pytest.raises(NativeError, match="compiled for AVX512, AVX512_BF16, which this CPU lacks") as caught:
        _loader.open_library(build_fake(features="AVX2=1 AVX512=1 AVX512_BF16=1 FMA=0 OPENMP=1 REPACK=1"))
    assert caught.value.code == "native.cpu"
    assert "build it on this machine" in caught.value.hint


def test_good_library_opens_and_tells_its_facts(build_fake):
    path = build_fake(features="OPENMP=1 REPACK=0")
    library = _loader.open_library(path)
    assert library.path == path
    assert library.info.llama_commit == "fakecommit"
    assert library.info.cpu_features == ("OPENMP",)


def test_library_is_opened_once_by_many_threads(build_fake, monkeypatch):
    monkeypatch.setenv(_locate.VARIABLE, str(build_fake()))
    monkeypatch.setattr(_loader, "_opened", [])
    opened, real = [], _loader.open_library
    monkeypatch.setattr(_loader, "open_library", lambda path: opened.append(path) or real(path))
    found, barrier = [], threading.Barrier(8)

    def use():
        barrier.wait()
        found.append(_loader.library())

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1
    assert len(found) == 8
    assert all(library is found[0] for library in found)


def test_failed_attempt_is_not_remembered(build_fake, monkeypatch, tmp_path):
    monkeypatch.setattr(_loader, "_opened", [])
    monkeypatch.setenv(_locate.VARIABLE, str(tmp_path / "later.so"))
    with pytest.raises(LibraryNotFoundError):
        _loader.library()
    build_fake().rename(tmp_path / "later.so")
    assert _loader.library().path == tmp_path / "later.so"


def test_import_works_and_loads_nothing_without_the_library():
    program = (
        "import sys, power_native, power_native.plugin\n"
        "assert 'power_native._loader' not in sys.modules and 'numpy' not in sys.modules\n"
        "from power_native import NativeModel, load_library\n"
        "from power_core.errors import LibraryNotFoundError\n"
        "try:\n"
        "    load_library()\n"
        "except LibraryNotFoundError as error:\n"
        "    print(error.code)\n"
    )
    environment = {**os.environ, _locate.VARIABLE: os.devnull + "/absent", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "native.not_found", run.stderr


def test_every_public_name_resolves():
    for name in power_native.__all__:
        assert getattr(power_native, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = power_native.nothing


@pytest.mark.parametrize(
    ("text", "flags"), [("flags\t: sse2 avx2\n", {"sse2", "avx2"}), ("Features : asimd", {"asimd"})]
)
def test_cpu_flags_are_read(tmp_path, text, flags):
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\n" + text)
    assert _cpu.cpu_flags(path) == flags


def test_unknown_cpu_refuses_nothing(tmp_path):
    assert _cpu.cpu_flags(tmp_path / "absent") is None
    assert _cpu.missing_features(("AVX512",), None) == ()
