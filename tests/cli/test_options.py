# White-box tests of bench, cli
"""Options mean the same in every command, and every command explains itself."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from placement_gym.bench import comparing
from placement_gym.cli import main, make_parser
from placement_gym.cli.parser import Command
from placement_gym.cli.values import output_folder, parse_seeds


def leaves(command: Command) -> list[Command]:
    """The commands below that run something."""
    if not command.commands:
        return [command]
    return [leaf for below in command.commands.values() for leaf in leaves(below)]


COMMANDS = leaves(make_parser())
SAME = {
    "--model": ["-m", "--model"],
    "--devices": ["-d", "--devices"],
    "--quiet": ["-q", "--quiet"],
    "--verbose": ["-v", "--verbose"],
}
"""Options and all their spellings."""
EVERYWHERE = ("--json", "--quiet", "--verbose")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.prog)
def test_every_command_explains_itself(command: Command) -> None:
    text = command.format_help()
    assert len(str(command.description)) > 40
    assert f"  {command.prog}" in text.partition("\nexample")[2]
    assert re.search(r"exit codes:\n  0    done", text)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.prog)
def test_examples_can_be_typed(command: Command) -> None:
    import shlex

    lines = re.findall(r"^  placement-gym (.*)$", str(command.epilog), re.MULTILINE)
    assert lines
    for line in lines:
        assert make_parser().parse_args(shlex.split(line)).run


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.prog)
def test_options_are_spelt_the_same_everywhere(command: Command) -> None:
    spellings = {
        option: action.option_strings
        for action in command._actions
        for option in action.option_strings
    }
    for option, expected in SAME.items():
        assert spellings.get(option, expected) == expected
    assert not [option for option in EVERYWHERE if option not in spellings]


@pytest.mark.parametrize("name", ["plan", "profile", "fidelity", "compare"])
def test_a_model_is_named(name: str) -> None:
    (model,) = [one for one in make_parser().commands[name]._actions if one.dest == "model"]
    assert model.required


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", [0, 1, 2]),
        ("1", [0]),
        ("0-2", [0, 1, 2]),
        ("0, 4,2-4", [0, 4, 2, 3]),
        ("7,", None),
        ("7-7", [7]),
    ],
)
def test_seeds_are_a_number_of_them_as_in_studies_or_a_list(
    text: str, expected: list[int] | None
) -> None:
    if expected is None:
        with pytest.raises(argparse.ArgumentTypeError):
            parse_seeds(text)
    else:
        assert parse_seeds(text) == expected


@pytest.mark.parametrize(("text", "refused"), [("plan.json", True), ("results-0.1", False)])
def test_a_folder_is_not_named_as_a_file(text: str, refused: bool) -> None:
    if refused:
        with pytest.raises(argparse.ArgumentTypeError, match="a folder"):
            output_folder(text)
    else:
        assert output_folder(text) == text


def test_help_names_the_defaults_of_compare(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["compare", "--help"])
    printed = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    assert f"(default: {comparing.DEFAULT_ENV})" in printed
    assert ", ".join(comparing.SEARCH_AGENTS) in printed


def test_out_is_a_file_or_its_folder(tmp_path: Path) -> None:
    from placement_gym.base import name_output_file

    assert name_output_file(tmp_path / "a.json", "b.json") == tmp_path / "a.json"
    assert name_output_file(tmp_path / "a", "b.json") == tmp_path / "a" / "b.json"
    (tmp_path / "v1.0").mkdir()
    assert name_output_file(tmp_path / "v1.0", "b.json") == tmp_path / "v1.0" / "b.json"
