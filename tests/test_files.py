"""Files that appear whole or not at all."""

import os
from pathlib import Path

import pytest

from drsim.files import replacing


def test_a_file_appears_once_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_text("old", encoding="utf-8")
    with replacing(path) as temporary:
        temporary.write_text("new", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "old"
    assert path.read_text(encoding="utf-8") == "new"
    assert [it.name for it in tmp_path.iterdir()] == ["result.txt"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def write_half(path: Path) -> None:
    with replacing(path, prefix=".unfinished-") as temporary:
        assert temporary.name.startswith(".unfinished-")
        temporary.write_text("half", encoding="utf-8")
        raise ZeroDivisionError


def test_nothing_is_left_where_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(ZeroDivisionError):
        write_half(path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [it.name for it in tmp_path.iterdir()] == ["result.txt"]
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "none" / "x"):
        pass
