import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from drsim import __version__
from drsim.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```console\n\$ (drsim .*?)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_examples_print_what_the_readme_shows(command: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert done.returncode in (0, 3), done.stderr
    assert done.stdout == output


def test_readme_starts_with_its_two_commands() -> None:
    assert re.findall(r"^make \w+", README, re.MULTILINE)[:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo:", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_changelog_names_every_command() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert all(f"`drsim {name}`" in changelog for name in COMMANDS)
    assert __version__ in changelog or "## Unreleased" in changelog
