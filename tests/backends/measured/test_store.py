"""The file of measurements: many processes, damage, disks that refuse."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest
from disks import full_disk
from forks import start_fork

from placement_gym.backends.measured import store as store_file
from placement_gym.backends.measured.store import MeasurementStore
from placement_gym.backends.protocol import Measurement
from placement_gym.errors import PlacementGymWarning

GOOD = Measurement(
    5.0,
    10.0,
    5.5,
    noise=float("inf"),
    n_submodels=3,
    n_submodels_expected=2,
    n_transfers=1,
    transfer_bytes=1000,
    memory_bytes=(300, 700),
    compile_s=0.25,
    measure_s=0.5,
    noise_floor=0.01,
)
N_ROWS = 150


def of_index(index: int) -> Measurement:
    return replace(GOOD, latency_ms=1.0 + index, latency_p90_ms=2.0 + index)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "measurements.sqlite"


@pytest.fixture
def store(path: Path) -> MeasurementStore:
    return MeasurementStore(path, "here")


@pytest.fixture
def filled(store: MeasurementStore) -> MeasurementStore:
    """Some hundred kilobytes, all but the first rows written in one go."""
    store.save("0", of_index(0))
    rows = [(store.conditions, str(i), store.encode(str(i), of_index(i))) for i in range(N_ROWS)]
    with store.open() as file:
        file.executemany(store_file.INSERT, rows)
    return store


def names_beside(path: Path) -> list[str]:
    """The files that have another name than the store's own ones."""
    own = ["", ".lock", "-wal", "-shm"]
    names = {file.name for file in path.parent.iterdir()}
    return sorted(names - {f"{path.name}{end}" for end in own})


def test_a_measurement_is_found_again_as_it_was(store: MeasurementStore, path: Path) -> None:
    assert store.load("a") is None
    store.save("a", GOOD)
    assert store.load("a") == GOOD
    assert MeasurementStore(path, "here").load("a") == GOOD
    assert names_beside(path) == []


def test_so_is_a_placement_that_failed(store: MeasurementStore) -> None:
    failed = Measurement.failed("no such operator", 10.0, (1, 1000), (300, 700))
    store.save("a", failed)
    assert store.load("a") == failed


def test_other_placements_and_conditions_are_not_known(store: MeasurementStore, path: Path) -> None:
    store.save("a", GOOD)
    assert store.load("b") is None
    assert MeasurementStore(path, "elsewhere").load("a") is None


def test_of_two_processes_that_measure_the_same_the_first_is_kept(store: MeasurementStore) -> None:
    store.save("a", GOOD)
    store.save("a", of_index(7))
    assert store.load("a") == GOOD


def test_processes_write_at_once_and_nothing_is_lost(store: MeasurementStore) -> None:
    def write(first: int) -> str:
        with warnings.catch_warnings(record=True) as caught:
            for index in range(first, first + 40):
                store.save(str(index), of_index(index))
                assert store.load(str(index)) == of_index(index)
        return "; ".join(str(warning.message) for warning in caught)

    forks = [start_fork(lambda first=first: write(first)) for first in (0, 40, 80)]
    assert [finish() for finish in forks] == ["", "", ""]
    assert [store.load(str(index)) for index in range(120)] == [of_index(i) for i in range(120)]


def overwrite(path: Path, at: float, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(int(at * path.stat().st_size))
        file.write(content)


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def change_a_digit(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"latency_ms": 76.0', b'"latency_ms": 16.0'))


def make_foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE measurements (secrets TEXT)")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "its beginning": lambda path: overwrite(path, 0.0, b"hello" * 20),
    "its middle": lambda path: overwrite(path, 0.3, os.urandom(path.stat().st_size // 2)),
    "zeros": lambda path: overwrite(path, 0.3, bytes(path.stat().st_size // 2)),
    "its end": truncate,
    "a digit": change_a_digit,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("not a database\n" * 1000),
    "foreign": make_foreign,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_set_aside_and_no_wrong_value_is_read(
    damage: str, filled: MeasurementStore, path: Path
) -> None:
    DAMAGES[damage](path)
    with pytest.warns(PlacementGymWarning, match=r"sqlite\.damaged', and a new one is begun"):
        found = [filled.load(str(index)) for index in range(N_ROWS)]
    assert all(one in (None, of_index(index)) for index, one in enumerate(found))
    assert f"{path.name}.damaged" in names_beside(path)
    filled.save("new", GOOD)
    assert filled.load("new") == GOOD


def test_a_file_that_another_process_has_renamed_is_not_renamed_again(
    filled: MeasurementStore, path: Path
) -> None:
    other = MeasurementStore(path, "here")
    overwrite(path, 0.0, b"hello" * 20)
    damaged = store_file.DamagedError("damaged")
    damaged.identity = store_file.identify(path)
    with pytest.warns(PlacementGymWarning):
        filled.save("a", GOOD)
    other.begin_anew(damaged)
    assert other.load("a") == GOOD
    assert names_beside(path) == [f"{path.name}.damaged"]


def test_a_full_disk_is_told_once_and_loses_no_kept_measurement(
    filled: MeasurementStore, path: Path
) -> None:
    with full_disk(1000), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for index in range(3):
            filled.save(f"new {index}", GOOD)
    assert len(caught) == 1
    assert "measurements are not kept from now on" in str(caught[0].message)
    assert MeasurementStore(path, "here").load("7") == of_index(7)


def test_so_is_one_that_is_full_from_the_beginning(store: MeasurementStore) -> None:
    with full_disk(1000), pytest.warns(PlacementGymWarning, match="not kept from now on"):
        store.save("a", GOOD)
    assert store.load("a") is None


def test_damage_while_processes_write_costs_no_process_its_results(
    filled: MeasurementStore, path: Path
) -> None:
    def write(first: int) -> int:
        wrong = 0
        with warnings.catch_warnings(record=True):
            for index in range(first, first + 60):
                filled.save(f"new {index}", of_index(index))
                wrong += filled.load(f"new {index}") not in (None, of_index(index))
        return wrong

    forks = [start_fork(lambda first=first: write(first)) for first in (0, 60)]
    for _ in range(3):
        sleep(0.05)
        with suppress(FileNotFoundError):  # just set aside
            DAMAGES["its middle"](path)
    assert [finish() for finish in forks] == ["0", "0"]
    with warnings.catch_warnings(record=True):
        filled.save("last", GOOD)
    assert filled.load("last") == GOOD
    assert names_beside(path)


@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_folder_is_told_once(existing: bool) -> None:
    folder = Path(tempfile.mkdtemp())
    path = folder / "measurements.sqlite"
    if existing:
        MeasurementStore(path, "here").save("a", GOOD)
    folder.chmod(0o555)

    def use() -> list[str]:
        if os.geteuid() == 0:
            os.setuid(65534)  # root may write everywhere
        store = MeasurementStore(path, "here")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                assert store.load("b") is None
                store.save("b", GOOD)
        return [str(warning.message) for warning in caught]

    told = start_fork(use)()
    assert told.count("measurements are not kept from now on") == 1, told
    assert "Permission denied" in told


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = MeasurementStore(tmp_path / "file" / "measurements.sqlite", "here")
    with pytest.warns(PlacementGymWarning, match="not kept from now on"):
        store.save("a", GOOD)
    store.save("b", GOOD)


def test_a_process_that_stopped_while_it_wrote_is_not_waited_for_again(
    store: MeasurementStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_file, "BUSY_S", 0.05)
    store.save("a", GOOD)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.warns(PlacementGymWarning, match="database is locked"):
            store.save("b", GOOD)
    assert not store.usable
    assert MeasurementStore(path, "here").load("a") == GOOD
