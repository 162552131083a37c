from __future__ import annotations

from pathlib import Path

import pytest

from placement_gym.errors import UserError
from placement_gym.files import check_output_file, make_output_folder


def test_an_output_folder_is_made_with_its_parents_and_left_empty(tmp_path: Path) -> None:
    folder = make_output_folder(tmp_path / "a" / "b")
    assert folder == tmp_path / "a" / "b"
    assert list(folder.iterdir()) == []
    assert make_output_folder(str(folder)) == folder


def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="cannot write results into"):
            make_output_folder(path)


def test_a_folder_that_cannot_be_written_is_the_users_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("placement_gym.files.tempfile.TemporaryFile", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        make_output_folder(tmp_path)


def test_an_output_file_needs_a_folder_and_is_none_itself(tmp_path: Path) -> None:
    assert check_output_file(tmp_path / "new" / "costs.json").parent.is_dir()
    with pytest.raises(UserError, match="is a folder"):
        check_output_file(tmp_path)
