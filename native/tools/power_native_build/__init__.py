"""Builds libpower_native for the package: pinned source, patches, build cache, CMake.

Runs inside the isolated build environment, so it uses the standard library, pip and unidiff only (and dataclasses
where the rest of the project uses attrs). Package map: `upstream` the pin, `toolchain` the compiler, `cuda` cuBLAS,
`cache` folders and locks, `archive` the source, `patching` the patches, `content_key` what identifies a build,
`compiling` CMake, `progress` the visible line, `library` the order of it all.
"""
