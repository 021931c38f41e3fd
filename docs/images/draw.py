"""Draw the pictures of the README from the example in it: `python docs/images/draw.py`."""

import doctest
from pathlib import Path

FOLDER = Path(__file__).parent
README = FOLDER.parents[1] / "README.md"


def run_readme() -> dict:
    """Run the example of the README, and return its variables."""
    test = doctest.DocTestParser().get_doctest(README.read_text().replace("```", "\n"), {}, "README.md", str(README), 0)
    variables = test.globs
    doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, clear_globs=False)
    return variables


if __name__ == "__main__":
    run_readme()["picture"].figure_.savefig(FOLDER / "relationship.png", dpi=80)
