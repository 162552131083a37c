"""Makes the links of the README absolute in the description of the package; see ``setup.cfg``."""

import configparser
import re
from pathlib import Path

from setuptools import setup

LINK = re.compile(r"(!?)(\[[^]]*\]\()(?![a-z]+:|#)")
"""What stands before the target of a relative link; of a picture it begins with ``!``."""


def make_links_absolute(text: str, address: str) -> str:
    """Lead relative links of a document to the files of the repository at ``address``."""
    return LINK.sub(
        lambda link: f"{link[0]}{address}/{'raw' if link[1] else 'blob'}/main/",
        text,
    )


if __name__ == "__main__":
    settings = configparser.ConfigParser()
    settings.read("setup.cfg")
    readme = Path("README.md").read_text(encoding="utf-8")
    setup(long_description=make_links_absolute(readme, settings["metadata"]["url"]))
