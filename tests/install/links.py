"""Links of a page that lead to files beside it, made to lead to a repository: PyPI shows the README alone.

`python -m tests.install.links README.md https://host/owner/name v0.2.0` rewrites the page in place, on the machine that
builds a release. So the address of the repository is nowhere in it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>(?!\w+:|#)[^)]+)\)")


def absolute_links(page: str, repository: str, revision: str) -> str:
    """The page with absolute links; pictures lead to the file itself."""

    def absolute(link: re.Match[str]) -> str:
        way = "raw" if link["image"] else "blob"
        return f"{link['image']}[{link['text']}]({repository}/{way}/{revision}/{link['target']})"

    return _LINK.sub(absolute, page)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(absolute_links(path.read_text(encoding="utf-8"), *sys.argv[2:]), encoding="utf-8", newline="\n")
