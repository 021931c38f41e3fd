"""`kernelkin models`: list the models there are."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ..registry import all_models
from .terminal import Terminal

HELP = "list the models, what they do and where they were published"
EXAMPLES = "  kernelkin models\n  kernelkin models --references"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--references", action="store_true", help="also show the publication of each")


def run(arguments: Namespace, terminal: Terminal) -> None:
    width = max(len(model.name) for model in all_models())
    for model in all_models():
        kinds = [kind for kind, found in (("classes", model.classifier), ("numbers", model.regressor)) if found]
        more = "; needs the targets of all tasks on the same rows, so from Python only" if model.needs_wide else ""
        terminal.say(f"{model.name:<{width}}  {model.description}")
        terminal.say(f"{'':<{width}}    predicts {' and '.join(kinds)}{more}")
        if arguments.references:
            terminal.say(f"{'':<{width}}    {model.reference}")
