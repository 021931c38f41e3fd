from contextlib import contextmanager, redirect_stdout

import numpy as np
import pandas as pd
import pytest

from kernelkin.cli import main as cli
from kernelkin.relations import baselines


@contextmanager
def quick_baselines():
    """Boosting takes most of the time of a small fit, and is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        kept = (baselines.SEPARATE, baselines.ONE_FOR_ALL)
        patch.setattr(baselines, "BASELINES", {name: baselines.BASELINES[name] for name in kept})
        yield


@pytest.fixture(scope="module", autouse=True)
def all_baselines_are_quick():
    with quick_baselines():
        yield


@pytest.fixture(scope="package")
def sales():
    """Three shops that sell more on Saturdays and in large rooms, with text, truths, gaps, an identifier."""
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(n)],
            "shop": np.repeat(["north", "south", "west"], n // 3),
            "size": rng.normal(100, 30, n).round(1),
            "day": rng.choice(["Mon", "Sat", "Sun"], n),
            "promo": rng.random(n) < 0.4,
        }
    )
    signal = np.sin(frame["size"] / 25) + (frame.day == "Sat") + 0.5 * frame.promo
    frame["sales"] = (100 + 20 * signal + 2 * rng.normal(size=n)).round(2)
    frame["busy"] = np.where(frame.sales > frame.sales.median(), "yes", "no")
    frame.loc[5, "size"] = np.nan
    return frame


@pytest.fixture(scope="package")
def folder(tmp_path_factory, sales):
    """A folder with the table, two models of it, and what `fit` printed of each."""
    folder = tmp_path_factory.mktemp("shops")
    sales.to_csv(folder / "sales.csv", index=False)
    for name, target, other, more in (
        ("number", "sales", "busy", ["--set", "couplings=common"]),
        ("class", "busy", "sales", ["--model", "MK-MTRL"]),
    ):
        out = str(folder / f"{name}.kin")
        argv = ["fit", str(folder / "sales.csv"), "--task", "shop", "--target", target, "--drop", other, "-o", out]
        with open(folder / f"{name}.txt", "w") as printed, redirect_stdout(printed), quick_baselines():
            assert cli.main([*argv, *more]) == 0
    return folder


@pytest.fixture
def run(capsys):
    """Run a command that goes well -> what it says; one that fails -> its error.

    The comparison of `fit` is left out unless `compares`: it takes most of the time.
    """

    def do(*argv, fails=False, compares=False):
        capsys.readouterr()
        if argv[0] == "fit" and not compares:
            argv = (*argv, "--no-comparison")
        code = cli.main([str(argument) for argument in argv])
        captured = capsys.readouterr()
        assert code == int(fails), captured.err
        return captured.err if fails else captured.out

    return do
