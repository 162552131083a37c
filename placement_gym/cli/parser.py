"""The parser of all commands: errors in one line with a suggestion, uniform help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from textwrap import fill
from typing import Any, NoReturn

from placement_gym.base import explain_removal, make_printable, suggest

PROGRAM = "placement-gym"
EXIT_CODES = {
    0: "done",
    2: "an argument or a file is wrong, or the engine failed",
    130: "interrupted",
}
IN_FILE = 'state it in a file of devices, as in [{{"name": "GPU", {}}}]'
HABITS = {
    **dict.fromkeys(("-hint", "--hint"), "use `--objective throughput` for several requests"),
    **dict.fromkeys(("-b", "--batch"), 'state it as a size: --shape "image[8,3,224,224]"'),
    **dict.fromkeys(
        ("-nstreams", "--nstreams"), IN_FILE.format('"properties": {"NUM_STREAMS": 2}')
    ),
    **dict.fromkeys(("-infer_precision", "--precision"), IN_FILE.format('"precision": "f16"')),
}
"""Option of OpenVINO's tools -> its replacement."""
MODEL_REMEDY = "as in `--model resnet` or `--model my_model.xml`; `placement-gym models` lists them"


class Command(argparse.ArgumentParser):
    """A command, or one of its sub-commands."""

    def __init__(self, **options: Any) -> None:
        shape = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=shape, allow_abbrev=False, **options)
        self.commands: dict[str, Command] = {}

    def add_commands(self) -> Callable[[str, str], Command]:
        """Return a function that adds a sub-command by name and line in the list of commands."""
        subparsers = self.add_subparsers(required=True, metavar="COMMAND", title="commands")

        def add(name: str, line: str) -> Command:
            self.commands[name] = subparsers.add_parser(name, help=line, description=f"{line}.")
            return self.commands[name]

        return add

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse as the base class does, but report unknown words before other errors."""
        words = sys.argv[1:] if args is None else list(args)
        if self.commands and not words:
            self.print_help()
            self.exit()
        self.check_words(words)
        parsed, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self.error(f"unexpected argument {unknown[0]!r}")
        return parsed, unknown

    def check_words(self, words: Sequence[str]) -> None:
        """End with an error if a sub-command or an option is unknown."""
        words = words[: words.index("--")] if "--" in words else words
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        if self.commands:
            first = next((word for word in words if not word.startswith("-")), None)
            if first is not None and first not in self.commands:
                self.error_unknown("command", first, self.commands)
            return
        for word in words:
            if removal := explain_removal("option", word):
                self.error(removal)
        for option in options:
            if option in self._option_string_actions:
                continue
            if option in HABITS:
                self.error(f"no option {option!r}: {HABITS[option]}")
            if option.startswith("--"):
                long = [name for name in self._option_string_actions if name.startswith("--")]
                self.error_unknown("option", option, long)

    def error_unknown(self, kind: str, word: str, choices: Iterable[str]) -> NoReturn:
        """End with an error that names the replacement, or suggests the nearest known word."""
        near = suggest(word, choices)
        self.error(explain_removal(kind, word) or f"no {kind} {word!r:.80}{near}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exit as the base class does, or raise an ``OSError`` if output cannot be written."""
        sys.stdout.flush()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        """Print the error in one line with the remedy, and exit with 2."""
        text = message.removeprefix("argument ")
        required = "the following arguments are required: "
        if text.startswith(required):
            names = text.removeprefix(required)
            remedy = f", {MODEL_REMEDY}" if "--model" in names else ""
            text = f"{names} is missing{remedy}"
        self.exit(2, f"{self.prog}: {make_printable(text)} (`{self.prog} --help`)\n")


def describe(command: Command, about: str, *examples: str, failure: str = "") -> None:
    """Set the help of a command: what it does, examples, and exit codes.

    ``failure`` is the meaning of exit code 1, empty if the command never returns it.
    """
    codes = {**EXIT_CODES, 1: failure}
    command.description = fill(about, 79, break_on_hyphens=False)
    lines = [f"  {PROGRAM} {example}" for example in examples]
    shown = [f"  {code:<4} {meaning}" for code, meaning in sorted(codes.items()) if meaning]
    title = "example:" if len(examples) == 1 else "examples:"
    command.epilog = "\n".join([title, *lines, "", "exit codes:", *shown])
