"""Profile the columns of a CSV file: type, missing values and cardinality, worked out in parallel.

    python examples/profile_csv.py FILE.csv [--executor NAME] [--no-header]

Three nodes read the same columns and each adds its part to every column of one key:

              ┌─▶ dtype       ─┐
    START ────┼─▶ missing     ─┼──▶ END        column_profile = {"age": {"dtype": ..., "missing": ...}, ...}
              └─▶ cardinality ─┘

With a plain dict the last node would win. `deep_merge` merges the three, and would raise an error should two
nodes ever disagree about a value. Without a file it profiles a small sample of its own.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import io
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, TypedDict

from raygraph import END, START, StateGraph
from raygraph.reducers import deep_merge

SAMPLE = """\
id,name,joined,score,active,note
1,Ada,2021-03-01,9.5,true,
2,Grace,2020-11-17,8.25,true,"wrote a compiler, then more"
3,Alan,NA,7,false,
4,Ada,2022-06-30,,true,second of the name
"""

#: What stands for "no value", in any case.
MISSING = {"", "na", "n/a", "nan", "null", "none"}

#: A cell, or None where a row is too short to have one.
Cell = str | None


class Profile(TypedDict, total=False):
    """The state of the graph."""

    columns: dict[str, list[Cell]]
    column_profile: Annotated[dict[str, dict[str, Any]], deep_merge(on_conflict="error")]


# --- nodes --------------------------------------------------------------------------------------------------


def dtype(state: Profile) -> Profile:
    """Name the narrowest type that fits every value of a column."""
    return {"column_profile": {name: {"dtype": type_of(values)} for name, values in state["columns"].items()}}


def missing(state: Profile) -> Profile:
    """Count the cells without a value."""
    profile = {}
    for name, values in state["columns"].items():
        count = sum(map(is_missing, values))
        profile[name] = {"missing": count, "missing_rate": count / len(values) if values else 0.0}
    return {"column_profile": profile}


def cardinality(state: Profile) -> Profile:
    """Count the different values, and find the most frequent one (the first in the file of those)."""
    profile = {}
    for name, values in state["columns"].items():
        counts = Counter(value for value in values if not is_missing(value))
        profile[name] = {"distinct": len(counts), "most_common": counts.most_common(1)[0][0] if counts else None}
    return {"column_profile": profile}


def build() -> StateGraph:
    """The graph, not yet compiled."""
    graph = StateGraph(Profile)
    for name, node in (("dtype", dtype), ("missing", missing), ("cardinality", cardinality)):
        graph.add_node(name, node)
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph


# --- values -------------------------------------------------------------------------------------------------


def is_missing(value: Cell) -> bool:
    """No cell, an empty one, or one of the usual words for it."""
    return value is None or value.strip().lower() in MISSING


def type_of(values: list[Cell]) -> str:
    """The first type in `TYPES` that all values have; `text` if there is none, `empty` without any value."""
    present = [value.strip() for value in values if value is not None and not is_missing(value)]
    if not present:
        return "empty"
    return next((name for name, fits in TYPES.items() if all(map(fits, present))), "text")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return fits


#: Narrow types first. Python's own int() and float() would also take "1_000" and "infinity".
TYPES: dict[str, Callable[[str], bool]] = {
    "boolean": lambda text: text.lower() in {"true", "false", "yes", "no"},
    "integer": lambda text: re.fullmatch(r"[+-]?[0-9]+", text) is not None,
    "number": lambda text: re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text) is not None,
    "date": _parses(date.fromisoformat),
    "datetime": _parses(datetime.fromisoformat),
}


# --- reading ------------------------------------------------------------------------------------------------


def read_columns(path: Path, *, header: bool = True) -> tuple[dict[str, list[Cell]], list[str]]:
    """The columns of a CSV file, and remarks about what was odd in it.

    Args:
        path: The file.
        header: Its first row holds the names of the columns.

    Raises:
        ValueError: The file is empty or not CSV.
        OSError: It cannot be read.
    """
    text, remarks = decode(path.read_bytes())
    rows = list(read_rows(text))
    if not rows:
        raise ValueError("the file is empty")
    given = rows.pop(0) if header else []
    width = max(map(len, [given, *rows]))
    names = unique_names(given, width)
    ragged = sum(len(row) != (len(given) if header else width) for row in rows)
    if ragged:
        remarks.append(f"{ragged} of {len(rows)} rows are shorter or longer than the first")
    columns = list(zip_longest(*rows)) if rows else []
    columns += [(None,) * len(rows)] * (width - len(columns))
    return {name: list(column) for name, column in zip(names, columns, strict=True)}, remarks


def decode(data: bytes) -> tuple[str, list[str]]:
    """Text from UTF-8 or UTF-16 with a byte order mark, from UTF-8 without one, or else from Latin-1."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace"), []
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        return data.decode("latin-1"), [f"not UTF-8 (byte {error.start}), so read as Latin-1"]


def read_rows(text: str) -> Iterator[list[str]]:
    """The rows of a CSV text, without blank lines; commas, semicolons, tabs or bars may stand between cells."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    unquoted = re.sub(r'"[^"]*"', "", first)
    delimiter = max(",;\t|", key=unquoted.count)  # the comma where there is none
    csv.field_size_limit(2**31 - 1)  # cells of any size that memory holds
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        yield from filter(None, reader)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None


def unique_names(given: list[str], width: int) -> list[str]:
    """A name for each of `width` columns: the given one, numbered where it is missing or taken."""
    names: list[str] = []
    for number in range(1, width + 1):
        name = given[number - 1].strip() if number <= len(given) else ""
        name = name or f"column {number}"
        copies = 1
        unique = name
        while unique in names:
            copies += 1
            unique = f"{name} ({copies})"
        names.append(unique)
    return names


# --- command ------------------------------------------------------------------------------------------------


def table(profile: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The profile as lines of text."""
    width = min(40, max(map(len, profile), default=0))
    yield f"{'column':{width}}  {'dtype':8}  {'missing':>14}  {'distinct':>8}  most common"
    for name, column in profile.items():
        share = f"{column['missing']} ({column['missing_rate']:.1%})"
        common = shorten(column["most_common"] or "", 30)
        yield f"{shorten(name, 40):{width}}  {column['dtype']:8}  {share:>14}  {column['distinct']:>8}  {common}"


def shorten(text: str, width: int) -> str:
    """One line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def main() -> None:
    """Profile the file on the command line, or a sample."""
    parser = argparse.ArgumentParser(description="Profile the columns of a CSV file in parallel.")
    parser.add_argument("file", nargs="?", type=Path, help="without one, a small sample is profiled")
    parser.add_argument("--executor", choices=["ray", "processes", "threads", "inline"])
    parser.add_argument("--no-header", action="store_true", help="the first row is data")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file
        if path is None:
            path = Path(folder, "sample.csv")
            path.write_text(SAMPLE, encoding="utf-8")
        try:
            columns, remarks = read_columns(path, header=not options.no_header)
        except OSError as error:
            parser.error(f"cannot read {path}: {error.strerror}")
        except ValueError as error:
            parser.error(f"{path}: {error}")
    for remark in remarks:
        print(f"note: {remark}", file=sys.stderr)
    final = build().compile(executor=options.executor).invoke({"columns": columns})
    # Every node names the columns in the order of the file.
    print(*table(final["column_profile"]), sep="\n")


if __name__ == "__main__":
    main()
