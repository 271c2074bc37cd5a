"""Finished blocks of a long computation on disk, from which it goes on after any kill.

A folder holds `manifest.json`, which says what is computed, and one file a finished block. Every file is written to a
temporary name and renamed, so that a block is there whole or not at all. A block carries the hash of what it belongs to
and the SHA-256 of its own bytes: one that was damaged later is not taken for a result, but computed again.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drsim.arrays import FloatArray
from drsim.errors import DataError, ParameterError
from drsim.files import replacing

__all__ = ["BlockStore", "digest_of", "open_store"]

SCHEMA = "drsim.store/1"
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 2**20
MARK = b"drsim.block/1\n"
TEMPORARY = ".unfinished-"
DIGEST = 32
"""Bytes of a SHA-256."""


def digest_of(*parts: bytes) -> str:
    """SHA-256 of parts, each with its length, in hexadecimal."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStore:
    """Blocks of float64 by number."""

    folder: Path
    key: str
    """Hash of all inputs, in hexadecimal."""
    n_blocks: int

    def path(self, block: int) -> Path:
        """File of a block."""
        return self.folder / f"block-{block:08d}"

    def write(self, block: int, values: FloatArray) -> None:
        """Put a block on disk, whole or not at all.

        Raises
        ------
        DataError
            The folder cannot be written to.
        """
        body = bytes.fromhex(self.key) + block.to_bytes(8, "big") + values.astype("<f8").tobytes()
        _write_whole(self.path(block), MARK + hashlib.sha256(body).digest() + body)

    def read(self, block: int) -> FloatArray | None:
        """Numbers of a block; None where there is none, or what is there is damaged.

        Returns
        -------
        ndarray or None
            (n,) as it was written.
        """
        try:
            raw = self.path(block).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"{self.path(block)} cannot be read: {error.strerror}") from None
        head = len(MARK)
        body = raw[head + DIGEST :]
        is_sound = raw[:head] == MARK and raw[head : head + DIGEST] == hashlib.sha256(body).digest()
        belongs = body[:DIGEST] == bytes.fromhex(self.key) and body[DIGEST : DIGEST + 8] == block.to_bytes(8, "big")
        if not (is_sound and belongs):
            return None
        return np.frombuffer(body[DIGEST + 8 :], dtype="<f8").astype(np.float64)

    def missing(self) -> tuple[list[int], list[int]]:
        """Blocks that have to be computed, and those among them whose file is damaged."""
        absent = [block for block in range(self.n_blocks) if not self.path(block).exists()]
        present = sorted(set(range(self.n_blocks)) - set(absent))
        damaged = [block for block in present if self.read(block) is None]
        return sorted(absent + damaged), damaged


def open_store(
    folder: Path, *, inputs: Mapping[str, str], n_blocks: int, about: Mapping[str, Any], resume: bool
) -> BlockStore:
    """A folder for blocks, new or to go on with.

    Parameters
    ----------
    folder : Path
        Made where it does not exist; otherwise empty, or, with `resume`, one that was opened for the same inputs.
    inputs : mapping of str to str
        Hash of each input by its name; all of them decide which blocks belong together.
    n_blocks : int
        Blocks in all, ≥ 1.
    about : mapping
        What else the manifest tells a reader; nothing depends on it.
    resume : bool
        Whether to go on with what is there.

    Returns
    -------
    BlockStore

    Raises
    ------
    ParameterError
        The folder holds a computation and `resume` is not given, or it holds something else.
    DataError
        It was opened for other inputs, its manifest cannot be read, or it cannot be written to.
    """
    key = digest_of(*(f"{name}={inputs[name]}".encode() for name in sorted(inputs)))
    store = BlockStore(folder=folder, key=key, n_blocks=n_blocks)
    manifest = {"schema": SCHEMA, "key": key, "n_blocks": n_blocks, "inputs": dict(inputs), "about": dict(about)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [entry.name for entry in folder.iterdir()]
    except OSError as error:
        raise DataError(f"--store {folder} cannot be used: {error.strerror}") from None
    if MANIFEST in names:
        if not resume:
            raise ParameterError(
                f"--store {folder} holds a sweep already; add --resume to go on with it, or name another folder"
            )
        _check_same(folder, inputs, n_blocks)
    elif any(not name.startswith(TEMPORARY) for name in names):
        raise ParameterError(f"--store {folder} holds other files and no sweep; name an empty or new folder")
    else:
        _write_whole(folder / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")
    for name in names:
        if name.startswith(TEMPORARY):
            (folder / name).unlink(missing_ok=True)
    return store


def _check_same(folder: Path, inputs: Mapping[str, str], n_blocks: int) -> None:
    path = folder / MANIFEST
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(LARGEST_MANIFEST))
        there, blocks = dict(found["inputs"]), int(found["n_blocks"])
        is_ours = found["schema"] == SCHEMA
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        is_ours, there, blocks = False, {}, 0
    if not is_ours:
        raise DataError(f"{path} is no manifest of a sweep that this version can read; name another folder")
    differing = sorted(name for name in {*inputs, *there} if inputs.get(name) != there.get(name))
    if differing or blocks != n_blocks:
        names = ", ".join(differing) or "block size"
        raise DataError(
            f"--store {folder} belongs to another sweep: {names} differ; repeat the command that began it, "
            "or name another folder"
        )


def _write_whole(path: Path, content: bytes) -> None:
    try:
        with replacing(path, prefix=TEMPORARY) as temporary:
            # not forced to the disk: a kill loses nothing of what was written, and after a power failure the checksum
            # tells what is damaged
            temporary.write_bytes(content)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from None
