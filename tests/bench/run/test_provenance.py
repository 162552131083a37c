# White-box tests of bench.run
"""What a row says of where it comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from placement_gym.bench.run.row_schema import find_commit


def test_commit_is_that_of_the_repository_with_the_file(tmp_path: Path) -> None:
    tracked, installed = tmp_path / "tracked.py", tmp_path / "venv" / "installed.py"
    installed.parent.mkdir()
    tracked.touch()
    installed.touch()
    assert find_commit(tracked) is None
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "tracked.py"), (*author, "commit", "-q", "-m", "a")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    commit = find_commit(tracked)
    assert commit is not None
    assert len(commit) >= 7
    assert find_commit(installed) is None
