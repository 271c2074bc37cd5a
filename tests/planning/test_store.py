import json
from pathlib import Path

import numpy as np
import pytest

from drsim.errors import DataError, ParameterError
from drsim.planning.store import BlockStore, digest_of, open_store

INPUTS = {"seed": "1", "axes": "abc"}


def opened(folder: Path, *, resume: bool = False, n_blocks: int = 3, **inputs: str) -> BlockStore:
    return open_store(folder, inputs=INPUTS | inputs, n_blocks=n_blocks, about={"source": "x"}, resume=resume)


def test_a_block_comes_back_to_the_bit(tmp_path: Path) -> None:
    store = opened(tmp_path / "new" / "folder")
    values = np.array([0.1, np.nan, -0.0, np.inf, 5e-324])
    store.write(1, values)
    found = store.read(1)
    assert found is not None
    assert found.tobytes() == values.tobytes()
    assert store.read(0) is None
    assert store.missing() == ([0, 2], [])
    names = {entry.name for entry in (tmp_path / "new" / "folder").iterdir()}
    assert names == {"manifest.json", "block-00000001"}
    assert json.loads((tmp_path / "new" / "folder" / "manifest.json").read_text())["about"] == {"source": "x"}


@pytest.mark.parametrize("at", [0, 20, 50, 80, 90, -1])
def test_any_changed_byte_is_noticed(tmp_path: Path, at: int) -> None:
    store = opened(tmp_path)
    store.write(0, np.arange(4.0))
    raw = bytearray(store.path(0).read_bytes())
    raw[at] ^= 1
    store.path(0).write_bytes(raw)
    assert store.read(0) is None
    assert store.missing() == ([0, 1, 2], [0])


def test_a_block_of_another_sweep_or_number_is_not_taken(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "a"), opened(tmp_path / "b", seed="2")
    one.write(0, np.zeros(2))
    other.path(0).write_bytes(one.path(0).read_bytes())
    one.path(1).write_bytes(one.path(0).read_bytes())
    assert other.read(0) is None
    assert one.read(1) is None


def test_a_store_is_never_mixed_with_anything_else(tmp_path: Path) -> None:
    opened(tmp_path / "a")
    with pytest.raises(ParameterError, match="holds a sweep already; add --resume to go on with it"):
        opened(tmp_path / "a")
    opened(tmp_path / "a", resume=True)
    with pytest.raises(DataError, match="belongs to another sweep: seed differ"):
        opened(tmp_path / "a", resume=True, seed="2")
    with pytest.raises(DataError, match="belongs to another sweep: axes, draws, seed differ"):
        opened(tmp_path / "a", resume=True, seed="2", axes="abd", draws="5")
    with pytest.raises(DataError, match="belongs to another sweep: block size differ"):
        opened(tmp_path / "a", resume=True, n_blocks=4)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").write_text("")
    with pytest.raises(ParameterError, match="holds other files and no sweep; name an empty or new folder"):
        opened(tmp_path / "b", resume=True)
    (tmp_path / "c").write_text("")
    with pytest.raises(DataError, match="cannot be used: File exists"):
        opened(tmp_path / "c")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff", b'{"schema": "drsim.store/9", "inputs": {}, "n_blocks": 3}']
)
def test_a_strange_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(DataError, match="is no manifest of a sweep that this version can read"):
        opened(tmp_path, resume=True)


def test_what_a_killed_writer_left_is_swept_up(tmp_path: Path) -> None:
    tmp_path.joinpath(".unfinished-abc").write_bytes(b"half")
    store = opened(tmp_path, resume=True)
    assert {entry.name for entry in tmp_path.iterdir()} == {"manifest.json"}
    assert store.missing() == ([0, 1, 2], [])


def test_parts_of_a_digest_cannot_run_into_each_other() -> None:
    assert digest_of(b"ab", b"c") != digest_of(b"a", b"bc") != digest_of(b"abc")
