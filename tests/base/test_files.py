# White-box tests of base
from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from disks import full_disk

from placement_gym.base import (
    FileError,
    PlacementGymWarning,
    UserError,
    check_output_file,
    check_output_folder,
    keep_if_possible,
    keep_results,
    make_output_folder,
    read_bytes,
    replace_file,
    replace_files,
    safe_name,
    set_aside,
    write_text,
)
from placement_gym.base.files import CHUNK_BYTES


def test_output_folder_is_made_with_parents_and_left_empty(tmp_path: Path) -> None:
    folder = make_output_folder(tmp_path / "a" / "b")
    assert folder == tmp_path / "a" / "b"
    assert list(folder.iterdir()) == []
    assert make_output_folder(str(folder)) == folder


def test_a_folder_is_checked_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("old", "new", "old/new/below"):
        check_output_folder(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["old"]


def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below", "n" * 256, "null\0"):
        with pytest.raises(UserError, match="cannot write results into"):
            make_output_folder(path)


def test_a_folder_that_cannot_be_written_is_the_users_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("placement_gym.base.files.tempfile.TemporaryFile", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        make_output_folder(tmp_path)


def test_an_output_file_needs_a_folder_and_is_none_itself(tmp_path: Path) -> None:
    assert check_output_file(tmp_path / "new" / "below" / "x.json") == tmp_path / "new/below/x.json"
    assert not (tmp_path / "new").exists()
    with pytest.raises(UserError, match="is a folder"):
        check_output_file(tmp_path)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_text(path, "one")
    with replace_file(path) as new:
        new.write_text("two")
        assert path.read_text() == "one"
        assert new.parent == path.parent
        assert new.suffix == ".json"
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_good_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_text(path, "good")
    with full_disk(10), pytest.raises(FileError, match=r"plan\.json': File too large"):
        write_text(path, "x" * 1000)
    assert path.read_text() == "good"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_while_writing_leaves_the_good_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_text(path, "good")

    def fail() -> None:
        with replace_file(path) as new:
            new.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "good"
    assert list(tmp_path.iterdir()) == [path]


def test_a_kill_while_writing_leaves_the_good_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_text(path, "good")
    code = (
        "import os, signal, sys\nfrom placement_gym.base.files import replace_file\n"
        "with replace_file(sys.argv[1]) as new:\n    new.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -9
    assert path.read_text() == "good"


def test_a_replaced_file_keeps_its_mode_and_links(tmp_path: Path) -> None:
    path, link = tmp_path / "real.json", tmp_path / "link.json"
    path.touch(0o640)
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new", follow=True)
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_in_a_results_folder_is_replaced_and_not_followed(
    exists: bool, tmp_path: Path
) -> None:
    victim, link = tmp_path / "bashrc", tmp_path / "out" / "report.md"
    if exists:
        victim.write_text("good")
        victim.chmod(0o600)
    link.parent.mkdir()
    link.symlink_to("../bashrc")
    write_text(link, "new")
    assert not link.is_symlink()
    assert link.read_text() == "new"
    assert victim.exists() == exists
    assert not exists or victim.read_text() == "good"


def test_what_is_no_file_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_a_missing_folder_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        write_text(tmp_path / "none" / "a.json", "")


def test_a_file_is_read_within_its_limit(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"12345")
    assert read_bytes(tmp_path / "small", 5) == b"12345"
    for path, limit in ((tmp_path / "small", 4), (tmp_path, 9), (tmp_path / "none", 9)):
        with pytest.raises(FileError, match="cannot read"):
            read_bytes(path, limit)
    with pytest.raises(FileError, match="cannot read"):
        read_bytes(Path("/dev/zero"), 9)


def test_reading_takes_no_memory_for_what_a_file_lacks(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"x" * (2 * CHUNK_BYTES + 1))
    code = (
        "import resource, sys\nfrom placement_gym.base.files import read_bytes\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))\n"
        "print(len(read_bytes(sys.argv[1], 2**40)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.stdout == f"{2 * CHUNK_BYTES + 1}\n", done.stderr


def test_damaged_files_are_renamed_and_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    for content in ("one", "two"):
        path.write_text(content)
        assert set_aside(path) is not None
    assert not path.exists()
    assert sorted(aside.read_text() for aside in tmp_path.iterdir()) == ["one", "two"]


def test_files_that_belong_together_are_all_replaced_or_none(tmp_path: Path) -> None:
    def write(**contents: str) -> None:
        with replace_files(tmp_path) as folder:
            for name, content in contents.items():
                write_text(folder / name, content)

    write(a="old", b="old")
    (tmp_path / "a").chmod(0o600)
    with full_disk(5), pytest.raises(FileError, match=f"cannot write '{tmp_path}/c': "):
        write(a="new", c="too long")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old", "b": "old"}
    write(a="new", c="new")
    contents = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert contents == {"a": "new", "b": "old", "c": "new"}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_results_whose_files_cannot_be_written_say_so(tmp_path: Path) -> None:
    document = {"file": "a", "unsaved": ""}
    with keep_results(document):
        write_text(tmp_path / "a", "")
    assert document == {"file": "a", "unsaved": ""}
    with keep_results(document):
        write_text(tmp_path / "none" / "a", "")
    assert document["file"] is None
    assert str(document["unsaved"]).startswith("cannot write")
    document = {"file": "plan.json", "unsaved": ""}
    with keep_results(document, "exported"):
        write_text(tmp_path / "none" / "a", "")
    assert (document["file"], document["exported"]) == ("plan.json", None)


def test_what_cannot_be_kept_is_a_warning(tmp_path: Path) -> None:
    with (
        pytest.warns(PlacementGymWarning, match=r"the report could not be kept: cannot write"),
        keep_if_possible("the report"),
    ):
        write_text(tmp_path / "none" / "a", "")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("resnet", "resnet"),
        ("bert-8-fp16", "bert-8-fp16"),
        ("mobilenet_v2.1", "mobilenet_v2.1"),
        ("../../X", "X"),
        ("/etc/passwd", "etc-passwd"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("a\0b\nc", "a-b-c"),
        ("\udcff", "unnamed"),
    ],
)
def test_a_name_becomes_a_file_in_the_folder(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_long_names_differ_and_fit(tmp_path: Path) -> None:
    names = {safe_name(f"{letter * 1000}{end}") for letter in ("a", "\u6a21") for end in "xy"}
    assert len(names) == 4
    for name in names:
        (tmp_path / f"{name}-report.json").touch()
