"""Keeps of a report's views what they show, from which the build of the site makes them.

    python docs/_scripts/keep_views.py docs/results/paper

``views/NAME.html`` becomes ``views/NAME.json.gz``, a hundredth of its bytes: the viewer is in each.
"""

from __future__ import annotations

import base64
import gzip
import re
import sys
from pathlib import Path

DATA = re.compile(r'<script id="data" type="application/gzip">(.*?)</script>')


def main() -> None:
    for page in sorted(Path(sys.argv[1]).glob("views/*.html")):
        found = DATA.search(page.read_text())
        assert found is not None, f"{page} is no page of `placement-gym view`"
        text = gzip.decompress(base64.b64decode(found[1]))
        page.with_suffix(".json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
        page.unlink()


if __name__ == "__main__":
    main()
