"""`kernelkin completion`: a script that completes commands, options and files in a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from .terminal import Terminal

HELP = "print a script that completes commands and options in bash, zsh or fish"
EXAMPLES = (
    "  kernelkin completion fish | source         # in ~/.config/fish/config.fish\n"
    '  eval "$(kernelkin completion bash)"       # in ~/.bashrc\n'
    '  eval "$(kernelkin completion zsh)"        # in ~/.zshrc, after compinit'
)


class Option(NamedTuple):
    """A long option."""

    name: str
    help: str
    choices: list[str]


# The help and the options of each command.
Commands = Mapping[str, tuple[str, list[Option]]]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(_WRITERS), help="the shell that the script is for")


def run(arguments: Namespace, terminal: Terminal) -> None:
    from .main import COMMANDS

    commands = {command.name: (command.help, _options(command.arguments)) for command in COMMANDS}
    for line in _WRITERS[arguments.shell](commands):
        terminal.say(line)


def _options(add: Callable[[ArgumentParser], None]) -> list[Option]:
    """The long options of a command."""
    parser = ArgumentParser()
    add(parser)
    return [
        Option(option, action.help or "", [str(choice) for choice in action.choices or ()])
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    ]


def _bash(commands: Commands) -> Iterator[str]:
    yield "_kernelkin() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield "    if (( COMP_CWORD == 1 )); then"
    yield f'        COMPREPLY=($(compgen -W "{" ".join(commands)}" -- "$word")); return'
    yield "    fi"
    yield '    case "${COMP_WORDS[1]} $before" in'
    for name, (_, options) in commands.items():
        for option in options:
            if option.choices:
                yield f'        "{name} {option.name}") words="{" ".join(option.choices)}" ;;'
    yield "    esac"
    yield '    if [[ -z "$words" && "$word" == -* ]]; then'
    yield '        case "${COMP_WORDS[1]}" in'
    for name, (_, options) in commands.items():
        yield f'            {name}) words="{" ".join(option.name for option in options)}" ;;'
    yield "        esac"
    yield "    fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _kernelkin kernelkin"


def _zsh(commands: Commands) -> Iterator[str]:
    """zsh runs the functions of bash."""
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from _bash(commands)


def _fish(commands: Commands) -> Iterator[str]:
    for name, (text, options) in commands.items():
        yield f"complete -c kernelkin -n __fish_use_subcommand -f -a {name} -d {_quoted(text)}"
        for option in options:
            values = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else ""
            where = f"-n '__fish_seen_subcommand_from {name}'"
            yield f"complete -c kernelkin {where} -l {option.name[2:]}{values} -d {_quoted(option.help)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_WRITERS: dict[str, Callable[[Commands], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
