"""What the script ``placement-gym`` calls; apart from the package, whose import takes a second."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command; Ctrl-C ends it in the same way while it is imported and while it ends.

    Returns:
        Exit status, as of ``placement_gym.cli.main``.
    """
    try:
        from placement_gym.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("placement-gym: interrupted", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only children and threads are ended now
