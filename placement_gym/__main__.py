"""``python -m placement_gym`` is the command ``placement-gym``."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.path[0] == str(Path.cwd()):  # python -m puts it first, where it hides other modules
    del sys.path[0]

from placement_gym.cli import main

sys.exit(main())
