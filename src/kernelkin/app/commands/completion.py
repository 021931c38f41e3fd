"""`kernelkin completion`: a script that completes commands, options and files in a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Iterator

from ..terminal import Terminal

HELP = "print a script that completes commands and options in bash, zsh or fish"
EXAMPLES = (
    "  kernelkin completion fish | source         # in ~/.config/fish/config.fish\n"
    '  eval "$(kernelkin completion bash)"       # in ~/.bashrc\n'
    '  eval "$(kernelkin completion zsh)"        # in ~/.zshrc, after compinit'
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(_WRITERS), help="the shell that the script is for")


def run(arguments: Namespace, terminal: Terminal) -> None:
    from ..cli import build_parser

    for line in _WRITERS[arguments.shell](build_parser()):
        terminal.say(line)


def _commands(parser: ArgumentParser) -> dict[str, tuple[ArgumentParser, str]]:
    """Name -> parser and help of each command."""
    (action,) = (action for action in parser._actions if isinstance(action, _SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {name: (sub, helps.get(name, "")) for name, sub in action.choices.items()}


def _options(parser: ArgumentParser) -> list[tuple[str, str, list[str]]]:
    """Name, help and choices of each long option."""
    return [
        (option, action.help or "", [str(choice) for choice in action.choices or ()])
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    ]


def _bash(parser: ArgumentParser) -> Iterator[str]:
    commands = _commands(parser)
    yield "_kernelkin() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield "    if (( COMP_CWORD == 1 )); then"
    yield f'        COMPREPLY=($(compgen -W "{" ".join(commands)}" -- "$word")); return'
    yield "    fi"
    yield '    case "${COMP_WORDS[1]} $before" in'
    for name, (sub, _) in commands.items():
        for option, _, choices in _options(sub):
            if choices:
                yield f'        "{name} {option}") words="{" ".join(choices)}" ;;'
    yield "    esac"
    yield '    if [[ -z "$words" && "$word" == -* ]]; then'
    yield '        case "${COMP_WORDS[1]}" in'
    for name, (sub, _) in commands.items():
        yield f'            {name}) words="{" ".join(option for option, _, _ in _options(sub))}" ;;'
    yield "        esac"
    yield "    fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _kernelkin kernelkin"


def _zsh(parser: ArgumentParser) -> Iterator[str]:
    """zsh runs the functions of bash."""
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from _bash(parser)


def _fish(parser: ArgumentParser) -> Iterator[str]:
    for name, (sub, text) in _commands(parser).items():
        yield f"complete -c kernelkin -n __fish_use_subcommand -f -a {name} -d {_quoted(text)}"
        for option, words, choices in _options(sub):
            values = f" -x -a {_quoted(' '.join(choices))}" if choices else ""
            yield (
                f"complete -c kernelkin -n '__fish_seen_subcommand_from {name}' -l {option[2:]}{values} "
                f"-d {_quoted(words)}"
            )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_WRITERS: dict[str, Callable[[ArgumentParser], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
