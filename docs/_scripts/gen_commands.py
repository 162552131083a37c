"""Writes what commands do and their options, from the parsers, into the page of commands."""

from __future__ import annotations

import argparse
import re

from placement_gym.cli.main import make_parser
from placement_gym.cli.parser import PROGRAM, Command

FENCE = re.compile(r"^```\{options\} (.+)\n```$", re.MULTILINE)
"""Where a page has the options of a command, or with ``all`` those that every command has."""
EVERYWHERE = {"--json", "--quiet", "--verbose"}


def fill_options(text: str) -> str:
    """Put tables of options in place of the fences of a page."""
    return FENCE.sub(lambda fence: generate_options(fence[1]), text)


def generate_options(name: str) -> str:
    """Generate the help of a command, such as ``"bench run"``, or the table of ``"all"``."""
    if name == "all":
        return make_table(find_command("models"), everywhere=True)
    command = find_command(name)
    required = [spell(action) for action in command._actions if action.required]
    usage = " ".join([PROGRAM, name, *required, "[OPTIONS]"])
    about = " ".join((command.description or "").split())
    table = make_table(command, everywhere=False)
    return f"{about}\n\n```console\n$ {usage}\n```\n\n{table}".rstrip()


def find_command(name: str) -> Command:
    """Find a command, or a sub-command, by its words."""
    command = make_parser()
    for word in name.split():
        command = command.commands[word]
    return command


def make_table(command: Command, everywhere: bool) -> str:
    """Make the table of the options that every command has, or of a command's other options."""
    actions = [
        action
        for action in command._actions  # argparse has no public list
        if not isinstance(action, argparse._HelpAction)
        and EVERYWHERE.isdisjoint(action.option_strings) is not everywhere
    ]
    rows = [f"| {name_option(action)} | {state_meaning(action)} |" for action in actions]
    return "\n".join(["| option | meaning |", "| --- | --- |", *rows]) if rows else ""


def spell(action: argparse.Action) -> str:
    """Spell an option with its value, or the word of a positional argument."""
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    return " ".join([*action.option_strings[-1:], value]).strip()


def name_option(action: argparse.Action) -> str:
    """Name all spellings of an option, in a cell of a table."""
    names = [*action.option_strings[:-1], spell(action)]
    return ", ".join(f"`{name}`" for name in names).replace("|", r"\|")


def state_meaning(action: argparse.Action) -> str:
    """State what an option means, as its help does, in a cell of a table; examples as code."""
    meaning = (action.help or "") % vars(action)
    return re.sub(r'"([^"]+)"', r"`\1`", meaning).replace("|", r"\|")
