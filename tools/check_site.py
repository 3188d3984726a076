"""Check the built documentation as its reader meets it: the search finds the field's words, and decisions stay out of it.

``check_site.py FOLDER`` reads Sphinx' search index and the home page in FOLDER, prints what is wrong, and fails then.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

# What operators look for, and the page that must be among the answers. Words as the search compares them: stemmed, in lower case.
SEARCHES = {
    "poison messag": "how-to/troubleshooting",
    "flow control": "how-to/troubleshooting",
    "high avail": "how-to/troubleshooting",
    "slow consum": "how-to/troubleshooting",
    "prefetch": "how-to/troubleshooting",
    "dead letter queue": "how-to/troubleshooting",
    "redeliveri": "how-to/queues",
    "standbi": "how-to/troubleshooting",
    "duplic": "how-to/queues",
}
_START = "Search.setIndex("


class SearchIndex:
    """The index that the site's search page loads, made by Sphinx.

    Args:
        path: its file, ``searchindex.js``.
    """

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self._data = json.loads(text.removeprefix(_START).removesuffix(")"))
        self._pages: list[str] = self._data["docnames"]

    def pages_with(self, words: str) -> set[str]:
        """Return the pages that have all of these words, in their text or in a title."""
        found = set(self._pages)
        for word in words.split():
            found &= self._pages_with_word(word)
        return found

    def all_indexed(self) -> set[str]:
        """Return the pages of which the index knows any word."""
        return {
            page for word in (*self._data["terms"], *self._data["titleterms"]) for page in self._pages_with_word(word)
        }

    def _pages_with_word(self, word: str) -> set[str]:
        numbers: set[int] = set()
        for part in ("terms", "titleterms"):
            places = self._data[part].get(word, [])
            numbers.update([places] if isinstance(places, int) else places)
        return {self._pages[number] for number in numbers}


def problems(site: Path) -> list[str]:
    """Return what a reader of this site would miss, a line each."""
    index = SearchIndex(site / "searchindex.js")
    found = [
        f"the search for {words!r} does not find {page}"
        for words, page in SEARCHES.items()
        if page not in index.pages_with(words)
    ]
    found += [f"the search finds {page}" for page in sorted(index.all_indexed()) if page.startswith("decisions/")]
    home = (site / "index.html").read_text(encoding="utf-8")
    sidebar = home.partition('class="sidebar-tree"')[2].partition("</aside>")[0]
    if "how-to/index.html" not in sidebar:
        found.append("the home page has no navigation")
    if "decisions/" in sidebar:
        found.append("the navigation lists decisions")
    return found


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="the folder with the built site")
    found = problems(parser.parse_args().site)
    for problem in found:
        print(problem)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
