"""Requantising: the output appears whole or not at all."""

import pytest

from power_core.errors import ArtifactNotFoundError, ConfigError, PowerError
from power_core.target import ModelSettings
from power_native import NativeModel
from power_native.quantize import quantize

pytestmark = pytest.mark.native


def test_output_is_a_smaller_model_that_loads(model_paths, tmp_path):
    path = tmp_path / "q8.gguf"
    quantize(model_paths["attention"], path, "Q8_0", threads=1)
    assert path.stat().st_size < model_paths["attention"].stat().st_size / 2
    with NativeModel.open(ModelSettings(path=path)) as model:
        assert model.info.n_vocab == 512
    assert [file.name for file in tmp_path.iterdir()] == ["q8.gguf"]


def test_failure_leaves_an_existing_output_as_it_was(model_paths, tmp_path):
    path = tmp_path / "out.gguf"
    path.write_bytes(b"before")
    with pytest.raises(PowerError, match="NO_SUCH_TYPE"):
        quantize(model_paths["attention"], path, "NO_SUCH_TYPE")
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == ["out.gguf"]


def test_damaged_input_is_refused(tmp_path):
    source = tmp_path / "in.gguf"
    source.write_bytes(b"GGUF nonsense")
    with pytest.raises(PowerError):
        quantize(source, tmp_path / "out.gguf", "Q8_0")
    assert [file.name for file in tmp_path.iterdir()] == ["in.gguf"]


def test_paths_are_checked(model_paths, tmp_path):
    with pytest.raises(ArtifactNotFoundError):
        quantize(tmp_path, tmp_path / "out.gguf", "Q8_0")
    with pytest.raises(ConfigError):
        quantize(model_paths["attention"], model_paths["attention"], "Q8_0")
    with pytest.raises(ConfigError):
        quantize(model_paths["attention"], tmp_path / "no" / "out.gguf", "Q8_0")
