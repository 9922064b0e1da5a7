"""The build's source and library cache: no network, no compiler run beyond the one that identifies it."""

import gzip
import io
import json
import shutil
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"
sys.path.insert(0, str(TOOLS))

from power_native_build.archive import PARTS, cached_archive, locate_source, unpack_source  # noqa: E402
from power_native_build.cache import sha256_of  # noqa: E402
from power_native_build.compiling import CompileJob  # noqa: E402
from power_native_build.content_key import base_key, content_key  # noqa: E402
from power_native_build.errors import BuildError  # noqa: E402
from power_native_build.library import finished_library, is_intact  # noqa: E402
from power_native_build.patching import apply_patches  # noqa: E402
from power_native_build.progress import Progress  # noqa: E402
from power_native_build.toolchain import Toolchain, find_toolchain  # noqa: E402
from power_native_build.upstream import Upstream, read_upstream  # noqa: E402

TOOLCHAIN = Toolchain(c_compiler=("cc",), cxx_compiler=("c++",), version="c++ 1.0", fingerprint="features")
FILE = "ggml/kernel.c"
TEXT = "one\ntwo\nthree\nfour\nfive\n"
PATCH = f"""\
Why: a reason. Upstream: not sent.

--- a/{FILE}
+++ b/{FILE}
@@ -1,4 +1,5 @@
 one
-two
+2
+2.5
 three
 four
"""


def write_llama(folder: Path) -> Path:
    for part in PARTS:
        if part in ("CMakeLists.txt", "LICENSE"):
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            (folder / part).write_text(part)
        else:
            (folder / part).mkdir(parents=True)
            (folder / part / "file.txt").write_text(part)
    (folder / FILE).write_text(TEXT)
    (folder / "models").mkdir()
    (folder / "models" / "large.bin").write_text("not needed")
    return folder


def write_archive(path: Path, top: str = "sdist-1.0") -> Path:
    tree = write_llama(path.parent / "tree")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.add(tree, arcname=f"{top}/vendor/llama.cpp")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw.getvalue(), mtime=0))
    return path


def write_project(folder: Path, archive: Path) -> Path:
    (folder / "shim").mkdir(parents=True)
    (folder / "patches").mkdir()
    shutil.copytree(TOOLS / "power_native_build", folder / "tools" / "power_native_build")
    (folder / "CMakeLists.txt").write_text("project()")
    (folder / "cmake").mkdir()
    (folder / "cmake" / "cuda.cmake").write_text("macro()")
    (folder / "shim" / "shim.cpp").write_text("int shim;")
    (folder / "patches" / "0001-topic.patch").write_text(PATCH)
    (folder / "UPSTREAM.toml").write_text(
        f'[source]\ndistribution = "sdist"\nversion = "1.0"\nsha256 = "{sha256_of(archive)}"\n'
        'folder = "sdist-1.0/vendor/llama.cpp"\n\n[llama_cpp]\ncommit = "abc"\nversion = "0.5.0"\nggml = "0.25.3"\n'
    )
    return folder


class FakeCompiler:
    """Writes a library that depends on the key and remembers what it was given."""

    def __init__(self) -> None:
        self.jobs: list[CompileJob] = []
        self.sources: list[str] = []

    def __call__(self, job: CompileJob, prefix: Path, progress: Progress) -> None:
        self.jobs.append(job)
        self.sources.append((job.work / "llama.cpp" / FILE).read_text())
        (prefix / "power_native").mkdir(parents=True)
        (prefix / "power_native" / "libpower_native.so").write_text(f"library {job.key}")


def no_download(upstream: Upstream, folder: Path, progress: Progress) -> None:
    raise AssertionError(f"{upstream.distribution} must not be downloaded into {folder}")


def copy_of(archive: Path) -> Callable[[Upstream, Path, Progress], None]:
    def download(upstream: Upstream, folder: Path, progress: Progress) -> None:
        (folder / upstream.archive_name).write_bytes(archive.read_bytes())

    return download


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "published" / "sdist-1.0.tar.gz")


@pytest.fixture
def project(tmp_path: Path, archive: Path) -> Path:
    return write_project(tmp_path / "native", archive)


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr("power_native_build.library.find_toolchain", lambda env, cmake_args: TOOLCHAIN)
    return {"POWER_CACHE_DIR": str(tmp_path / "cache")}


# ------------------------------------------------------------------------------------------------ the cache


def test_a_library_is_compiled_once_and_then_reused(
    project: Path, env: dict[str, str], archive: Path, tmp_path: Path
) -> None:
    compiler = FakeCompiler()
    first = finished_library(project, env, compile_with=compiler, download=copy_of(archive))
    other_clone = write_project(tmp_path / "second" / "native", archive)
    second = finished_library(other_clone, env, compile_with=compiler, download=no_download)
    assert first == second
    assert len(compiler.jobs) == 1
    record = json.loads((first / "power_native" / "_build.json").read_text())
    assert record["content_key"] == first.name
    assert record["llama_commit"] == "abc"


def test_the_compiled_source_is_patched_and_holds_only_what_is_compiled(
    project: Path, env: dict[str, str], archive: Path
) -> None:
    compiler = FakeCompiler()
    finished_library(project, env, compile_with=compiler, download=copy_of(archive))
    assert compiler.sources == ["one\n2\n2.5\nthree\nfour\nfive\n"]
    assert sorted(entry.name for entry in (compiler.jobs[0].work / "llama.cpp").iterdir()) == sorted(PARTS)


def test_a_changed_shim_reuses_the_source_and_the_objects(project: Path, env: dict[str, str], archive: Path) -> None:
    compiler = FakeCompiler()
    first = finished_library(project, env, compile_with=compiler, download=copy_of(archive))
    (project / "shim" / "shim.cpp").write_text("int other;")
    second = finished_library(project, env, compile_with=compiler, download=no_download)
    assert first != second
    assert compiler.jobs[0].work == compiler.jobs[1].work
    assert is_intact(first)


def test_a_damaged_cached_library_is_built_again(project: Path, env: dict[str, str], archive: Path) -> None:
    compiler = FakeCompiler()
    entry = finished_library(project, env, compile_with=compiler, download=copy_of(archive))
    (entry / "power_native" / "libpower_native.so").write_text("damaged")
    assert not is_intact(entry)
    assert finished_library(project, env, compile_with=compiler, download=no_download) == entry
    assert is_intact(entry)
    assert len(compiler.jobs) == 2


def test_a_failed_compilation_leaves_no_entry(project: Path, env: dict[str, str], archive: Path) -> None:
    def failing(job: CompileJob, prefix: Path, progress: Progress) -> None:
        (prefix / "power_native").mkdir(parents=True)
        (prefix / "power_native" / "libpower_native.so").write_text("half")
        raise BuildError("compiling failed")

    with pytest.raises(BuildError, match="compiling failed"):
        finished_library(project, env, compile_with=failing, download=copy_of(archive))
    assert list((Path(env["POWER_CACHE_DIR"]) / "native").iterdir()) == []


def test_two_builds_at_once_compile_once(project: Path, env: dict[str, str], archive: Path) -> None:
    compiler = FakeCompiler()
    entries: list[Path] = []

    def build() -> None:
        entries.append(finished_library(project, env, compile_with=compiler, download=copy_of(archive)))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(entries)) == 1
    assert len(entries) == 4
    assert len(compiler.jobs) == 1


def test_objects_of_another_build_are_removed(project: Path, env: dict[str, str], archive: Path) -> None:
    compiler = FakeCompiler()
    finished_library(project, env, compile_with=compiler, download=copy_of(archive))
    finished_library(project, {**env, "CMAKE_ARGS": "-DX=1"}, compile_with=compiler, download=no_download)
    assert not compiler.jobs[0].work.exists()
    assert compiler.jobs[1].work.exists()


# --------------------------------------------------------------------------------------------------- the key


def add_shim_file(project: Path) -> None:
    (project / "shim" / "new.cpp").write_text("int shim;")


def rename_patch(project: Path) -> None:
    (project / "patches" / "0001-topic.patch").rename(project / "patches" / "0002-topic.patch")


@pytest.mark.parametrize(
    "change",
    [
        lambda project: (project / "shim" / "shim.cpp").write_text("int other;"),
        add_shim_file,
        lambda project: (project / "CMakeLists.txt").write_text("project(x)"),
        lambda project: (project / "cmake" / "cuda.cmake").write_text("macro(x)"),
        lambda project: (project / "UPSTREAM.toml").write_text("# other"),
        lambda project: (project / "patches" / "0001-topic.patch").write_text("# other"),
        rename_patch,
        lambda project: (project / "tools" / "power_native_build" / "compiling.py").write_text("# other flags"),
        lambda project: (project / "tools" / "power_native_build" / "patching.py").write_text("# other source"),
    ],
)
def test_every_file_changes_the_key(project: Path, change: Callable[[Path], object]) -> None:
    before = content_key(base_key(project, "source", TOOLCHAIN, {}), project)
    change(project)
    assert content_key(base_key(project, "source", TOOLCHAIN, {}), project) != before


@pytest.mark.parametrize("variable", ["CMAKE_ARGS", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CUDAARCHS"])
def test_every_flag_variable_changes_the_key(project: Path, variable: str) -> None:
    assert base_key(project, "source", TOOLCHAIN, {variable: "-DX=1"}) != base_key(project, "source", TOOLCHAIN, {})


def test_source_compiler_and_processor_change_the_key(project: Path) -> None:
    other_cpu = Toolchain(c_compiler=("cc",), cxx_compiler=("c++",), version="c++ 1.0", fingerprint="other features")
    other_compiler = Toolchain(c_compiler=("gcc",), cxx_compiler=("c++",), version="c++ 1.0", fingerprint="features")
    keys = {
        base_key(project, "source", TOOLCHAIN, {}),
        base_key(project, "other source", TOOLCHAIN, {}),
        base_key(project, "source", other_cpu, {}),
        base_key(project, "source", other_compiler, {}),
    }
    assert len(keys) == 4


def test_the_key_does_not_depend_on_the_place_of_the_clone(project: Path, archive: Path, tmp_path: Path) -> None:
    clone = write_project(tmp_path / "elsewhere" / "native", archive)
    assert base_key(project, "s", TOOLCHAIN, {}) == base_key(clone, "s", TOOLCHAIN, {})
    assert content_key("base", project) == content_key("base", clone)


# ------------------------------------------------------------------------------------------------- the source


def test_a_download_with_another_digest_is_refused_and_removed(project: Path, tmp_path: Path) -> None:
    upstream = read_upstream(project / "UPSTREAM.toml")
    sources = tmp_path / "sources"

    def download(upstream: Upstream, folder: Path, progress: Progress) -> None:
        (folder / upstream.archive_name).write_bytes(b"something else")

    with pytest.raises(BuildError, match=f"UPSTREAM.toml pins {upstream.sha256}"):
        cached_archive(upstream, sources, Progress(), download)
    assert list(sources.iterdir()) == []


def test_a_cached_archive_with_another_digest_is_refused_and_removed(project: Path, tmp_path: Path) -> None:
    upstream = read_upstream(project / "UPSTREAM.toml")
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / upstream.archive_name).write_bytes(b"cut off")
    with pytest.raises(BuildError, match="run the command again"):
        cached_archive(upstream, sources, Progress(), no_download)
    assert list(sources.iterdir()) == []


def test_a_named_archive_with_another_digest_is_refused_and_kept(project: Path, tmp_path: Path) -> None:
    upstream = read_upstream(project / "UPSTREAM.toml")
    named = tmp_path / "mine.tar.gz"
    named.write_bytes(b"something else")
    source = locate_source(upstream, {"POWER_LLAMA_CPP_SOURCE": str(named)})
    with pytest.raises(BuildError, match="Name another file"):
        unpack_source(source, upstream, tmp_path / "sources", tmp_path / "out", Progress(), no_download)
    assert named.exists()


def test_a_named_archive_needs_no_download(project: Path, env: dict[str, str], archive: Path) -> None:
    compiler = FakeCompiler()
    with_archive = {**env, "POWER_LLAMA_CPP_SOURCE": str(archive)}
    entry = finished_library(project, with_archive, compile_with=compiler, download=no_download)
    assert finished_library(project, env, compile_with=compiler, download=no_download) == entry


def test_a_named_folder_is_copied_patched_and_left_alone(project: Path, env: dict[str, str], tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "llama.cpp")
    compiler = FakeCompiler()
    with_folder = {**env, "POWER_LLAMA_CPP_SOURCE": str(folder)}
    first = finished_library(project, with_folder, compile_with=compiler, download=no_download)
    assert compiler.sources == ["one\n2\n2.5\nthree\nfour\nfive\n"]
    assert (folder / FILE).read_text() == TEXT
    record = json.loads((first / "power_native" / "_build.json").read_text())
    assert record["llama_commit"].startswith("abc+folder.")
    (folder / "src" / "file.txt").write_text("edited")
    assert finished_library(project, with_folder, compile_with=compiler, download=no_download) != first


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_a_name_that_is_no_source_is_refused(project: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    upstream = read_upstream(project / "UPSTREAM.toml")
    with pytest.raises(BuildError, match="neither a file nor a llama"):
        locate_source(upstream, {"POWER_LLAMA_CPP_SOURCE": str(tmp_path / name)})


# ------------------------------------------------------------------------------------------------ the patches


def patched(tmp_path: Path, *patches: str) -> Path:
    folder = write_llama(tmp_path / "llama.cpp")
    files = []
    for number, text in enumerate(patches, start=1):
        files.append(tmp_path / f"{number:04}-topic.patch")
        files[-1].write_text(text)
    apply_patches(folder, files)
    return folder


def test_patches_apply_in_order(tmp_path: Path) -> None:
    second = PATCH.replace("-two\n+2\n+2.5\n", "-2\n+second\n 2.5\n").replace("-1,4 +1,5", "-1,5 +1,5")
    assert (patched(tmp_path, PATCH, second) / FILE).read_text() == "one\nsecond\n2.5\nthree\nfour\nfive\n"


def test_a_patch_may_add_a_file(tmp_path: Path) -> None:
    folder = patched(tmp_path, "--- /dev/null\n+++ b/ggml/new.c\n@@ -0,0 +1,2 @@\n+first\n+second\n")
    assert (folder / "ggml" / "new.c").read_text() == "first\nsecond\n"


def test_a_patch_may_remove_a_file(tmp_path: Path) -> None:
    folder = patched(tmp_path, "--- a/src/file.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-src\n\\ No newline at end of file\n")
    assert not (folder / "src" / "file.txt").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PATCH.replace("-two", "-TWO"), f"0001-topic.patch does not apply to {FILE} at line 1"),
        (PATCH.replace("-1,4 +1,5", "-2,4 +2,5"), "does not apply"),
        (PATCH.replace("kernel.c", "absent.c"), "which the source does not have"),
        (PATCH.replace("-1,4", "-1,9"), "is not a unified diff"),
        ("only words\n", "changes nothing"),
        (f"--- /dev/null\n+++ b/{FILE}\n@@ -0,0 +1 @@\n+x\n", "which exists already"),
    ],
)
def test_a_patch_that_does_not_apply_is_named(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        patched(tmp_path, text)


def test_a_patch_that_does_not_apply_leaves_no_source(project: Path, env: dict[str, str], archive: Path) -> None:
    (project / "patches" / "0001-topic.patch").write_text(PATCH.replace("-two", "-TWO"))
    with pytest.raises(BuildError, match="does not apply"):
        finished_library(project, env, compile_with=FakeCompiler(), download=copy_of(archive))
    builds = Path(env["POWER_CACHE_DIR"]) / "build"
    assert [entry for entry in builds.rglob("*") if entry.name == "llama.cpp"] == []


# ------------------------------------------------------------------------------------------------ the compiler


def test_a_missing_compiler_says_what_to_install() -> None:
    with pytest.raises(BuildError, match=r"no C\+\+ compiler found .*build-essential.*xcode-select"):
        find_toolchain({"CXX": "/no/such/compiler"}, [])


def test_a_missing_compiler_is_found_before_anything_is_fetched(project: Path, tmp_path: Path) -> None:
    env = {"POWER_CACHE_DIR": str(tmp_path / "cache"), "CC": "/no/such/compiler"}
    with pytest.raises(BuildError, match="no C compiler found"):
        finished_library(project, env, compile_with=FakeCompiler(), download=no_download)
    assert not (tmp_path / "cache").exists()


def test_a_compiler_that_fails_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no headers here' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(BuildError, match="broken' does not work here: no headers here"):
        find_toolchain({}, [f"-DCMAKE_CXX_COMPILER={broken}"])
