"""Commands with their help and arguments. Nothing large is imported here, so that --help answers at once."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable
from typing import NamedTuple


class Command(NamedTuple):
    """A subcommand. `run` names a module and a function, which is called with the arguments and the terminal.

    If `writes_files`, the result is a file, and the command continues when standard output is closed.
    """

    name: str
    help: str
    examples: str
    arguments: Callable[[ArgumentParser], None]
    run: str
    writes_files: bool = False


DATA_HELP = "CSV, TSV, Parquet or Excel file with a header, optionally compressed (.gz, .xz), or - for CSV on stdin"
MODEL_HELP = "a file saved by `kernelkin fit`"
JSON_HELP, ALL_HELP = "print one JSON object, for scripts", "show every group, even if there are many"


def _fit(parser: ArgumentParser) -> None:
    _data(parser)
    parser.add_argument("-o", "--out", required=True, metavar="MODEL", help="file to save the model to")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="see `kernelkin models` (default: Kin, an average of mixed kernel models; MK-MTRL with --cv, or if --set "
        "names parameters that Kin does not have)",
    )
    _training(parser)
    parser.add_argument("--no-comparison", action="store_true", help="do not compare the model with simpler ones")
    parser.add_argument("--json", action="store_true", help=JSON_HELP)


def _compare(parser: ArgumentParser) -> None:
    _data(parser)
    parser.add_argument(
        "--models",
        nargs="+",
        metavar="NAME",
        help="see `kernelkin models`; Kin is always compared (default: Kin MK-MTRL, or Kin with --loss)",
    )
    parser.add_argument("--folds", type=int, default=5, metavar="K", help="parts, each held out once (default: 5)")
    _training(parser)


def _data(parser: ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument(
        "--task",
        action="append",
        default=[],
        metavar="COL",
        help="column with the group of each row; repeat the option for further groupings, such as --task school --task "
        "class: reports use the first",
    )
    parser.add_argument(
        "--target",
        required=True,
        nargs="+",
        metavar="COL",
        help="column to predict; or several columns, each a task on the same rows (then without --task)",
    )
    parser.add_argument(
        "--time", metavar="COL", help="column of numbers or dates: also test on the last rows of each group"
    )
    parser.add_argument("--drop", nargs="+", default=[], metavar="COL", help="columns to leave out")
    _format(parser)
    parser.add_argument(
        "--day-first",
        action=BooleanOptionalAction,
        help="whether 3/4/2024 is the third of April (default: no, with a warning for ambiguous columns)",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--classification", action="store_true", help="treat the target as a class")
    kind.add_argument("--regression", action="store_true", help="treat the target as a number")
    kind.add_argument("--loss", metavar="NAME", help="loss of Kin, such as poisson for counts (default: squared)")
    exposure = parser.add_mutually_exclusive_group()
    exposure.add_argument(
        "--exposure", metavar="COL", help="column with the exposure of each count, such as time at risk"
    )
    exposure.add_argument("--offset", metavar="COL", help="column with the logarithm of the exposure of each count")


def _format(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--sep", metavar="CHAR", help="column separator, or tab (default: by the file ending and the header)"
    )
    parser.add_argument("--encoding", default="utf-8", metavar="NAME", help="encoding of a text file (default: utf-8)")
    parser.add_argument("--decimal", choices=[".", ","], default=".", help="decimal separator of numbers (default: .)")


def _training(parser: ArgumentParser) -> None:
    _task_features(parser, "similar tasks have similar functions (Kin)")
    parser.add_argument(
        "--cv", action="store_true", help="choose parameters by 5-fold cross-validation (default model: MK-MTRL)"
    )
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="model parameters, as JSON or text, such as C=10 couplings=common class_weight=balanced kernels=linear",
    )
    parser.add_argument(
        "--scoring",
        metavar="NAME",
        help="score for --cv: r2, accuracy, roc_auc ... (default: a score of all rows together)",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="threads (default: as many as processors for Kin, else 1)"
    )


def _task_features(parser: ArgumentParser, purpose: str) -> None:
    parser.add_argument(
        "--task-features",
        metavar="FILE",
        help=f"table with one row per task, named in the task column ('task' if the targets are tasks): {purpose}",
    )


def _predict(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument(
        "-o", "--out", required=True, metavar="OUT", help="CSV or TSV file, may be compressed (.gz), or - for stdout"
    )
    parser.add_argument(
        "--column", default="prediction", metavar="NAME", help="name of the new column (default: prediction)"
    )
    parser.add_argument(
        "--proba", action="store_true", help="also add the probability of each class, in columns probability_CLASS"
    )
    parser.add_argument(
        "--interval",
        type=float,
        nargs="?",
        const=0.9,
        metavar="COVERAGE",
        help="also add intervals that contain this share of the targets (default share: 0.9), in columns NAME_low and "
        "NAME_high",
    )
    parser.add_argument(
        "--unknown-tasks",
        choices=["common", "error"],
        help="how to treat tasks that were not in training: predict them by the part common to all tasks, or raise an "
        "error (default: as in `kernelkin fit`)",
    )
    _task_features(parser, "predict new tasks with a model that was fitted with task features")
    _format(parser)


def _score(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    _format(parser)
    parser.add_argument("--all", action="store_true", help=ALL_HELP)
    parser.add_argument("--json", action="store_true", help=JSON_HELP)


def _inspect(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("--all", action="store_true", help=ALL_HELP)


def _effects(parser: ArgumentParser) -> None:
    _inspect(parser)
    parser.add_argument("--task", metavar="COL", help="grouping to show, if there are several (default: the first)")
    parser.add_argument("-o", "--out", metavar="OUT", help="write all groups to a CSV or TSV file, or - for stdout")


def _report(parser: ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="file saved by `kernelkin fit`, or two files to compare"
    )
    parser.add_argument("-o", "--out", required=True, metavar="HTML", help="the file to write")
    parser.add_argument("--test", metavar="FILE", help="labelled table to test on, instead of the rows held out by fit")
    parser.add_argument("--title", help="title of the page (default: the target and the task)")
    _format(parser)


COMMANDS = (
    Command(
        "fit",
        "fit a model to a table, compare it with simpler models on held-out rows, and save it",
        "  kernelkin fit shops.csv --task shop --target sales -o sales.kin\n"
        "  kernelkin fit shops.csv --task shop --target sales --drop id --time day -o sales.kin\n"
        "  kernelkin fit exams.parquet --task school --task class --target grade -o grade.kin\n"
        "  kernelkin fit seizures.csv --task patient --target seizures --loss poisson --exposure weeks -o m.kin\n"
        "  kernelkin fit robot.csv --target torque1 torque2 torque3 -o robot.kin\n"
        "  kernelkin fit umsatz.csv --sep ';' --decimal , --encoding cp1252 --task ort --target umsatz -o m.kin\n"
        "  kernelkin fit shops.csv --task shop --target sales --set C=10 couplings=common -o sales.kin\n"
        "  kernelkin fit sales.csv --task shop --target sales --task-features shops.csv -o sales.kin\n"
        '  kernelkin fit t.csv --task site --target height --set \'kernels={"size":["length","width"]}\' -o t.kin\n'
        "  gunzip -c shops.csv.gz | kernelkin fit - --task shop --target sales -o sales.kin",
        _fit,
        "fit:run",
        writes_files=True,
    ),
    Command(
        "predict",
        "add a column of predictions to a table of any length",
        "  kernelkin predict sales.kin new.csv -o predictions.csv\n"
        "  cat new.csv | kernelkin predict sales.kin - -o - | head\n"
        "  kernelkin predict sales.kin new_shops.csv --task-features shops.csv -o predictions.csv\n"
        "  kernelkin predict sales.kin new.csv --interval -o predictions.csv\n"
        "  kernelkin predict churn.kin new.csv --proba -o predictions.csv\n\n"
        "the cells of a CSV or TSV file are copied unchanged, and a cell with the prediction is added to each row. A\n"
        "model with several targets adds a column for each, named by the target and --column. The output is UTF-8",
        _predict,
        "predict:run",
        writes_files=True,
    ),
    Command(
        "score",
        "score a saved model on a labelled table: over all rows, and in each group",
        "  kernelkin score sales.kin later.csv\n"
        "  kernelkin score sales.kin later.csv --json\n\n"
        "regression: RMSE in the units of the target, R² and R² within groups\n"
        "classification: log loss, accuracy, and for two classes the area under the ROC curve (AUC)",
        _score,
        "inspect:run_score",
    ),
    Command(
        "inspect",
        "describe a saved model: its kind, data, scores, shares of variance and certificate",
        "  kernelkin inspect sales.kin\n  kernelkin inspect sales.kin --all",
        _inspect,
        "inspect:run",
    ),
    Command(
        "effects",
        "show the level and slopes of each group of a saved model, with intervals",
        "  kernelkin effects sales.kin\n  kernelkin effects grade.kin --task class -o classes.csv",
        _effects,
        "inspect:run_effects",
    ),
    Command(
        "compare",
        "cross-validate several models on a table and compare them with standard models",
        "  kernelkin compare shops.csv --task shop --target sales\n"
        "  kernelkin compare shops.csv --task shop --target sales --models MK-MTRL AVG IMKL Lasso --cv",
        _compare,
        "fit:run_compare",
    ),
    Command(
        "report",
        "write an HTML file, usable offline, that shows how well a saved model predicts and why",
        "  kernelkin report sales.kin -o report.html\n"
        "  kernelkin report sales.kin --test later.csv -o report.html\n"
        "  kernelkin report old.kin new.kin --test later.csv -o comparison.html",
        _report,
        "inspect:run_report",
        writes_files=True,
    ),
    Command(
        "models",
        "list the models, what they do and where they were published",
        "  kernelkin models",
        lambda parser: None,
        "inspect:run_models",
    ),
)
