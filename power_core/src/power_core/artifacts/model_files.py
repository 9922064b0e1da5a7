"""The files of one model, from the scan of its header to the moment they are in use: did they stay what they were?"""

from __future__ import annotations

from pathlib import Path

import attrs

from power_core.artifacts.gguf import GgufHeader, scan_header
from power_core.artifacts.identity import ArtifactIdentity, HashProgress, identify
from power_core.artifacts.shards import model_paths
from power_core.errors import ArtifactDigestMismatch, ArtifactNotFoundError


@attrs.frozen(kw_only=True)
class FileStamp:
    """What the file system says about a file without reading it; another one means that the file was touched."""

    path: Path
    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int


@attrs.frozen(kw_only=True)
class ModelFiles:
    """A scanned model and the stamps of its files, all taken before a byte was read, in the order of its shards."""

    header: GgufHeader
    stamps: tuple[FileStamp, ...]

    @property
    def path(self) -> Path:
        """The file that stands for the model: the only one, or the first shard."""
        return self.header.path

    @property
    def size_bytes(self) -> int:
        """Bytes of all files together."""
        return sum(stamp.size_bytes for stamp in self.stamps)

    def shares_a_file_with(self, other: ModelFiles) -> bool:
        """Tell whether a file belongs to both, under whatever names."""
        places = {(stamp.device, stamp.inode) for stamp in self.stamps}
        return any((stamp.device, stamp.inode) in places for stamp in other.stamps)

    def measure(self, progress: HashProgress | None = None) -> ArtifactIdentity:
        """Hash every file; ``progress`` as in ``identify``.

        Raises:
            ArtifactNotFoundError: a file is gone.
            ArtifactDigestMismatch: a file changed after it was scanned, or while it was hashed.
        """
        identity = identify(self.header, progress)
        self.require_unchanged()
        return identity

    def require_unchanged(self) -> None:
        """Raise ``ArtifactDigestMismatch`` when a file is not the one that was scanned; reads nothing."""
        for stamp in self.stamps:
            found = stamp_file(stamp.path)
            if found != stamp:
                raise ArtifactDigestMismatch(
                    f"{stamp.path} changed while it was checked: it had {stamp.size_bytes} bytes and has now "
                    f"{found.size_bytes}, or was written again",
                    path=str(stamp.path),
                    check_id="identity.changed",
                    expected=stamp,
                    actual=found,
                    hint="wait until nothing writes to the file, then try again",
                )


def scan_model(path: Path) -> ModelFiles:
    """Scan a header and stamp the file, and every shard of a split model, whose headers are not read here.

    Raises:
        ArtifactError: see ``scan_header`` and ``model_paths``; a shard is missing.
    """
    first = stamp_file(Path(path))
    header = scan_header(path)
    others = (stamp_file(shard) for shard in model_paths(header) if shard != header.path)
    return ModelFiles(header=header, stamps=(first, *others))


def stamp_file(path: Path) -> FileStamp:
    """Return a file's stamp.

    Raises:
        ArtifactNotFoundError: the file is absent or cannot be reached.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArtifactNotFoundError(
            f"{path} cannot be read: {reason}",
            path=str(path),
            expected="a readable GGUF file",
            hint="check the path and its permissions",
        ) from error
    return FileStamp(
        path=path,
        device=status.st_dev,
        inode=status.st_ino,
        size_bytes=status.st_size,
        modified_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
    )
