"""Where llama-server comes from: compiled once per source, compiler and options; failures say what to do."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from peers import server_build

from power_core.errors import PowerError
from power_native_build.archive import PARTS


@pytest.fixture
def environment(tmp_path, monkeypatch) -> dict[str, str]:
    source = tmp_path / "llama.cpp"
    for part in PARTS:
        (source / part).mkdir(parents=True)
    monkeypatch.setattr(server_build, "run_command", FakeCmake())
    return {"POWER_CACHE_DIR": str(tmp_path / "cache"), "POWER_LLAMA_CPP_SOURCE": str(source), "PATH": "/usr/bin:/bin"}


class FakeCmake:
    """Writes the program that a compilation would have written, and keeps the commands."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str]) -> None:
        self.commands.append(command)
        if "--build" in command:
            program = Path(command[2]) / "bin" / server_build.PROGRAM
            program.parent.mkdir(parents=True)
            program.write_text("compiled")


def test_the_program_is_compiled_once_from_the_named_folder(environment):
    program = server_build.llama_server(environment)
    assert program.read_text() == "compiled"
    configure, _ = server_build.run_command.commands
    assert environment["POWER_LLAMA_CPP_SOURCE"] in configure
    assert server_build.llama_server(environment) == program
    assert len(server_build.run_command.commands) == 2, "the second time nothing is compiled"
    assert [path for path in program.parent.iterdir() if path.is_dir()] == [], "no build folder stays"


def test_other_options_are_another_program_and_reach_cmake(environment):
    first = server_build.llama_server(environment)
    other = server_build.llama_server({**environment, "CMAKE_ARGS": "-DGGML_NATIVE=OFF"})
    assert other != first
    assert server_build.run_command.commands[-2][-1] == "-DGGML_NATIVE=OFF"


def test_a_build_takes_nothing_from_the_network(environment):
    server_build.llama_server(environment)
    configure = server_build.run_command.commands[0]
    for option in ("LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI"):
        assert f"-D{option}=OFF" in configure


def test_a_source_that_is_none_is_an_error_with_a_way_out(environment, tmp_path):
    with pytest.raises(PowerError, match=r"neither a file nor a llama\.cpp folder") as caught:
        server_build.llama_server({**environment, "POWER_LLAMA_CPP_SOURCE": str(tmp_path / "nothing")})
    assert "--llama-server" in caught.value.hint


def test_a_failed_command_shows_the_end_of_its_output():
    with pytest.raises(server_build.BuildError, match="failed with status 3:\nno compiler"):
        server_build.run_command(["sh", "-c", "echo no compiler; exit 3"])
    with pytest.raises(server_build.BuildError, match="Install it"):
        server_build.run_command(["/nonexistent/cmake"])


def test_only_the_folder_of_llama_cpp_is_unpacked(tmp_path):
    (tmp_path / "a" / "vendor" / "llama.cpp").mkdir(parents=True)
    (tmp_path / "a" / "vendor" / "llama.cpp" / "CMakeLists.txt").write_text("project")
    (tmp_path / "a" / "other").write_text("binding")
    archive = tmp_path / "source.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "a", arcname="a")
    folder = server_build.unpack(archive, "a/vendor/llama.cpp", tmp_path / "out")
    assert (folder / "CMakeLists.txt").read_text() == "project"
    assert not (tmp_path / "out" / "a" / "other").exists()
