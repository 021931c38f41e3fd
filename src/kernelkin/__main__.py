"""The program `kernelkin`, also `python -m kernelkin`.

It decides what an interrupt does before anything large is imported, so that one never ends in a traceback.
"""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line -> its exit code.

    Until the command runs, and once it has ended, an interrupt ends the process in silence: an exception would be
    raised inside the import of an extension module, or while the interpreter shuts down.
    """
    # Ignored if the process was started with interrupts off, as by `nohup` or in the background of a script.
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as cli

    try:
        if handled:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return cli.main()
    except KeyboardInterrupt:  # a second one, while the first is handled
        return INTERRUPTED
    finally:
        if handled:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
