import re
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import kernelkin
from kernelkin.cli import main as cli
from kernelkin.cli.arguments import COMMANDS, Command


def fail(arguments, terminal):
    raise ValueError("column 'age'\nis not there")


def command(run):
    return Command("try", "try something", "  kernelkin try", lambda parser: None, f"main:{run.__name__}")


@pytest.fixture
def only(monkeypatch):
    """Make `try` the one command, doing what is given."""

    def put(run):
        monkeypatch.setattr(cli, "COMMANDS", (command(run),))
        monkeypatch.setattr(cli, run.__name__, run, raising=False)

    return put


def test_version(capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out == f"kernelkin {kernelkin.__version__}\n"


def test_a_command_that_goes_well_returns_zero(only, capsys):
    only(lambda arguments, terminal: terminal.say("well"))
    assert cli.main(["try"]) == 0
    assert capsys.readouterr().out == "well\n"


def test_an_error_is_one_line(only, capsys):
    only(fail)
    assert cli.main(["try"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "kernelkin: error: column 'age' is not there (--debug shows where)\n"
    assert not captured.out


def test_debug_lets_the_traceback_through(only):
    only(fail)
    with pytest.raises(ValueError, match="column 'age'"):
        cli.main(["try", "--debug"])


def test_an_error_without_words_is_named(only, capsys):
    def run(arguments, terminal):
        raise MemoryError

    only(run)
    assert cli.main(["try"]) == 1
    assert "error: MemoryError" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(only, capsys):
    only(lambda arguments, terminal: Path("nowhere.csv").read_text())
    assert cli.main(["try"]) == 1
    assert capsys.readouterr().err.startswith("kernelkin: error: No such file or directory: 'nowhere.csv'")


def test_the_first_help_shows_a_session_and_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    out = capsys.readouterr().out
    assert "a session:\n  kernelkin fit" in out
    assert "0 success, 1 failure, 2 wrong usage, 130 interrupted" in out


def test_an_interrupt_has_a_code_of_its_own(only, capsys):
    def run(arguments, terminal):
        raise KeyboardInterrupt

    only(run)
    assert cli.main(["try"]) == 130
    assert capsys.readouterr().err == "kernelkin: interrupted\n"


def test_a_warning_is_one_line_and_the_hook_is_put_back(only, capsys):
    def run(arguments, terminal):
        warnings.simplefilter("always")
        warnings.warn("stopped at\nmax_iter", UserWarning, stacklevel=1)

    only(run)
    hook = warnings.showwarning
    assert cli.main(["try"]) == 0
    assert capsys.readouterr().err == "kernelkin: warning: stopped at max_iter\n"
    assert warnings.showwarning is hook


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["compare", "--folds", "many"]])
def test_wrong_calls_leave_with_two(argv, capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(argv)
    assert leaving.value.code == 2
    assert "usage: kernelkin" in capsys.readouterr().err


def test_help_of_every_command_has_examples(capsys):
    without = []
    for name in [command.name for command in cli.COMMANDS]:
        with pytest.raises(SystemExit) as leaving:
            cli.main([name, "--help"])
        if leaving.value.code or f"examples:\n  kernelkin {name}" not in capsys.readouterr().out:
            without.append(name)
    assert not without


def test_the_command_line_starts_without_what_only_its_commands_need():
    code = "import sys, kernelkin.cli.main as cli; cli.build_parser().format_help(); print(*sys.modules)"
    imported = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert "kernelkin.cli.main" in imported
    # `kernelkin --help` takes less than a tenth of a second.
    assert not imported & {"numpy", "sklearn", "pandas", "matplotlib", "numba"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shtab_completes_commands_and_options(shell):
    script = pytest.importorskip("shtab").complete(cli.build_parser(), shell)
    assert "\\x" not in script and all(word in script for word in ("predict", "unknown-tasks", "no-comparison"))


def test_every_command_has_the_function_that_it_names():
    for command in COMMANDS:
        module, function = command.run.split(":")
        assert callable(getattr(import_module(f"kernelkin.cli.{module}"), function))


def test_nothing_else_imports_the_application():
    package = Path(kernelkin.__file__).parent
    others = [
        path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in ("cli", "__main__.py")
    ]
    importing = [path.name for path in others if re.search(r"(from|import) [\w.]*\bcli\b", path.read_text())]
    assert len(others) > 50 and not importing
