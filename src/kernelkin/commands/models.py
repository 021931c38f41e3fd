"""`kernelkin models`: what there is to choose from."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from ..registry import models

HELP = "list the models, what they do and who proposed them"
EXAMPLES = "  kernelkin models\n  kernelkin models --references"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--references", action="store_true", help="also who proposed each")


def run(arguments: Namespace, terminal: Any) -> None:
    width = max(len(model.name) for model in models())
    for model in models():
        kinds = [kind for kind, found in (("classes", model.classifier), ("numbers", model.regressor)) if found]
        more = "; needs y of all tasks on the same rows, so from Python only" if model.needs_wide else ""
        terminal.say(f"{model.name:<{width}}  {model.description}")
        terminal.say(f"{'':<{width}}    predicts {' and '.join(kinds)}{more}")
        if arguments.references:
            terminal.say(f"{'':<{width}}    {model.reference}")
