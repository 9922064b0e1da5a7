"""The PEP 517 backend of power-native: finds or builds the library, then lets scikit-build-core pack it.

scikit-build-core runs CMake a second time with POWER_NATIVE_PREBUILT, which only copies files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scikit_build_core import build as packer
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ConfigSettings = dict[str, list[str] | str]

PROJECT = Path(__file__).resolve().parent.parent


def get_requires_for_build_wheel(config_settings: ConfigSettings | None = None) -> list[str]:
    """What a wheel needs besides pyproject.toml's list: cuBLAS, for a CUDA build whose toolkit has none."""
    return [*packer.get_requires_for_build_wheel(config_settings), *_cuda_requirements()]


def get_requires_for_build_editable(config_settings: ConfigSettings | None = None) -> list[str]:
    """As for a wheel."""
    return [*packer.get_requires_for_build_editable(config_settings), *_cuda_requirements()]


def build_wheel(
    wheel_directory: str, config_settings: ConfigSettings | None = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel that contains the library."""
    return packer.build_wheel(wheel_directory, _with_library(config_settings), metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: ConfigSettings | None = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel: Python files stay where they are, the library is installed beside their redirection."""
    return packer.build_editable(wheel_directory, _with_library(config_settings), metadata_directory)


def _cuda_requirements() -> list[str]:
    from power_native_build.content_key import parse_cmake_args
    from power_native_build.cuda import cuda_requirements

    return cuda_requirements(os.environ, parse_cmake_args(os.environ))


def _with_library(config_settings: ConfigSettings | None) -> ConfigSettings:
    """Add the finished library to the settings; any failure ends the build with one message.

    Settings for CMake given any other way than by CMAKE_ARGS would reach the packing step only, so they are refused.
    """
    settings = dict(config_settings or {})
    refused = [name for name in settings if name.startswith("cmake.")]
    refused += [name for name in ("SKBUILD_CMAKE_ARGS", "SKBUILD_CMAKE_DEFINE") if os.environ.get(name)]
    if refused:
        raise SystemExit(f"power-native: {refused[0]!r} is not supported. Give the same options in CMAKE_ARGS.")
    if sys.platform not in ("linux", "darwin"):
        raise SystemExit(f"power-native: {sys.platform!r} is not supported; the library builds on Linux and macOS.")

    from power_native_build.errors import BuildError
    from power_native_build.library import finished_library

    try:
        entry = finished_library(PROJECT, os.environ)
    except BuildError as error:
        raise SystemExit(f"power-native: {error}") from error
    settings["cmake.define.POWER_NATIVE_PREBUILT"] = str(entry)
    return settings
