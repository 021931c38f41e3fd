"""Count what one fit passes through: `python -m docs.call_path` prints functions and files of this library.

`--list` names the functions, in the order in which they are first called.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

import kernelkin
from kernelkin import MKMTRLClassifier

ROOT = Path(kernelkin.__file__).parent


def called_by_fit() -> list[tuple[str, str]]:
    """Files and functions of this library that `MKMTRLClassifier().fit` calls on a small long data set."""
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, 3)), np.repeat(["a", "b", "c"], 20)
    y = X[:, 0] > 0
    MKMTRLClassifier().fit(X, y, tasks=tasks)  # imports and compiles what a fit needs
    seen: dict[tuple[str, str], None] = {}

    def record(frame, event, argument):
        code = frame.f_code
        # Comprehensions and functions that dataclasses generate are not counted.
        if event == "call" and code.co_filename.startswith(str(ROOT)) and not code.co_name.startswith("<"):
            seen.setdefault((str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname))

    model = MKMTRLClassifier()
    sys.setprofile(record)
    model.fit(X, y, tasks=tasks)
    sys.setprofile(None)
    return list(seen)


if __name__ == "__main__":
    found = called_by_fit()
    if "--list" in sys.argv:
        print("\n".join(f"{file}: {name}" for file, name in found))
    bases = [base.__name__ for base in MKMTRLClassifier.__mro__[1:] if base.__module__.startswith("kernelkin.")]
    print(f"{len(found)} functions in {len({file for file, _ in found})} files; bases of the class: {', '.join(bases)}")
    for package, count in Counter(file.split("/")[0] for file, _ in found).most_common():
        files = len({file for file, _ in found if file.split("/")[0] == package})
        print(f"{package:16} {count:3} functions in {files} files")
