"""A census of the Python standard library: its most complex and longest functions, and those written twice.

    python examples/stdlib_census.py --executor processes

Real work for every core, with nothing to download: it parses the standard library of the Python that runs it.
`raygraph demo` runs this same graph.

    START ──▶ measure, measure, measure, …  ──▶ summarise ──▶ END
              one Send per package          └─▶ compare   ──▶ END

Many `measure` tasks run at once and finish in any order. The report is the same every time and on every
executor, because raygraph hands their updates to the reducers in one fixed order. The reducers here would not
even need it: each keeps a bounded or keyed result and breaks every tie.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import sys
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, TypedDict
from zlib import crc32

from raygraph import END, START, Send, StateGraph

#: Entries kept in each ranking.
TOP = 20
#: A package with more source than this is measured in parts, so that no single task holds up the step.
PART_BYTES = 250_000
#: Functions with fewer syntax nodes than this are too small to call a duplicate.
MIN_NODES = 50
#: Nodes in one shingle, and shingles from which one is kept (winnowing).
SHINGLE, WINDOW = 12, 8
#: Per cent of shingles in common (Jaccard) from which two functions are near-duplicates.
SIMILAR = 80

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Sketch = tuple[int, ...]


class Group(TypedDict):
    """The input of one `measure` task: a package, or a part of a large one."""

    package: str
    files: list[str]
    size: int


class Entry(TypedDict):
    """One function in a ranking."""

    function: str
    complexity: int
    lines: int


# --- reducers: associative and commutative, so the order of the tasks could not matter ----------------------


def add_counts(left: dict[Any, int], right: dict[Any, int]) -> dict[Any, int]:
    """Add up two tallies."""
    return {key: left.get(key, 0) + right.get(key, 0) for key in left.keys() | right.keys()}


def most_complex(left: list[Entry], right: list[Entry]) -> list[Entry]:
    """Keep the `TOP` most complex functions of both."""
    return sorted(left + right, key=lambda e: (-e["complexity"], -e["lines"], e["function"]))[:TOP]


def longest(left: list[Entry], right: list[Entry]) -> list[Entry]:
    """Keep the `TOP` longest functions of both."""
    return sorted(left + right, key=lambda e: (-e["lines"], -e["complexity"], e["function"]))[:TOP]


def union(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Join two dicts that never have a key in common."""
    return {**left, **right}


class Census(TypedDict, total=False):
    """The state of the graph."""

    groups: list[Group]
    totals: Annotated[dict[str, int], add_counts]
    distribution: Annotated[dict[int, int], add_counts]
    most_complex: Annotated[list[Entry], most_complex]
    longest: Annotated[list[Entry], longest]
    sketches: Annotated[dict[str, Sketch], union]
    report: Annotated[dict[str, Any], union]


# --- nodes and edges ----------------------------------------------------------------------------------------


def fan_out(state: Census) -> list[Send]:
    """Start one task per group; the largest come first, so that the cores finish together."""
    return [Send("measure", group) for group in state["groups"]]


def measure(group: Group) -> Census:
    """Measure every function of one package."""
    root = stdlib()
    totals: Counter[str] = Counter(packages=0, modules=0, lines=0, functions=0, unreadable=0)
    entries: list[Entry] = []
    sketches: dict[str, Sketch] = {}
    for file in group["files"]:
        source = (root / file).read_bytes()
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            totals["unreadable"] += 1
            continue
        totals.update(modules=1, lines=source.count(b"\n"))
        for name, function in functions(tree):
            name = f"{module_name(file)}:{name}"
            entries.append(Entry(function=name, complexity=complexity(function), lines=length(function)))
            sketch = fingerprint(function)
            if sketch:
                sketches[f"{name}:{function.lineno}"] = sketch
    totals["functions"] = len(entries)
    return {
        "totals": dict(totals),
        "distribution": dict(Counter(entry["complexity"] for entry in entries)),
        "most_complex": most_complex(entries, []),
        "longest": longest(entries, []),
        "sketches": sketches,
    }


def summarise(state: Census) -> Census:
    """Put the totals, the distribution and the two rankings into the report."""
    totals = state["totals"] | {"packages": len({group["package"] for group in state["groups"]})}
    return {
        "report": {
            "totals": totals,
            "complexity": spread(state["distribution"]),
            "most_complex": state["most_complex"],
            "longest": state["longest"],
        }
    }


def compare(state: Census) -> Census:
    """Find the functions that were written more than once, in different packages."""
    sketches = state["sketches"]
    groups = [group for group in near_duplicates(sketches) if len({package_of(name) for name in group}) > 1]
    groups.sort(key=lambda group: (-sum(len(sketches[name]) for name in group), group))
    return {
        "report": {
            "duplicates": {
                "compared": len(sketches),
                "groups": len(groups),
                "functions": sum(map(len, groups)),
                "largest": groups[:TOP],
            }
        }
    }


def build() -> StateGraph:
    """The graph, not yet compiled."""
    graph = StateGraph(Census)
    graph.add_node("measure", measure)
    graph.add_node("summarise", summarise)
    graph.add_node("compare", compare)
    graph.add_conditional_edges(START, fan_out, ["measure"])
    graph.add_edge("measure", "summarise")
    graph.add_edge("measure", "compare")
    graph.add_edge("summarise", END)
    graph.add_edge("compare", END)
    return graph


# --- what is there to measure -------------------------------------------------------------------------------


_SKIPPED = {"__pycache__", "test", "tests", "idle_test", "site-packages", "dist-packages"}


def stdlib() -> Path:
    """The folder of the standard library of this Python."""
    return Path(sysconfig.get_path("stdlib"))


def packages(limit: int | None = None) -> list[Group]:
    """The packages of the standard library without their tests, largest first.

    Args:
        limit: Only the first so many packages by name.

    Raises:
        FileNotFoundError: This Python has no source files of its standard library.
    """
    root = stdlib()
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED]
        for path in (Path(folder, name) for name in files if name.endswith(".py")):
            file = path.relative_to(root).as_posix()
            package = file.partition("/")[0].removesuffix(".py")
            if package in sys.stdlib_module_names:
                found[package].append((file, path.stat().st_size))
    if not found:
        raise FileNotFoundError(f"no Python source files in the standard library folder {root}")
    groups = [part for package in sorted(found)[:limit] for part in split(package, sorted(found[package]))]
    return sorted(groups, key=lambda group: (-group["size"], group["files"]))


def split(package: str, files: list[tuple[str, int]]) -> Iterator[Group]:
    """Cut the files of a package into parts of about `PART_BYTES`."""
    parts: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for file, end in zip(files, accumulate(size for _, size in files), strict=True):
        parts[(end - file[1]) // PART_BYTES].append(file)
    for part in parts.values():
        yield Group(package=package, files=[name for name, _ in part], size=sum(size for _, size in part))


def module_name(file: str) -> str:
    """`json.decoder` for `json/decoder.py`, `json` for `json/__init__.py`."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def package_of(name: str) -> str:
    """The top-level package of a function's name."""
    return name.partition(":")[0].partition(".")[0]


# --- measuring one function ---------------------------------------------------------------------------------

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.Assert,
    ast.comprehension,
)


def functions(tree: ast.AST) -> Iterator[tuple[str, FunctionNode]]:
    """Every function of a module with its qualified name, in source order."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, prefix = stack.pop()
        if isinstance(node, _FUNCTIONS):
            yield prefix + node.name, node
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            prefix += node.name + "."
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
        stack.extend((child, prefix) for child in reversed(children))


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function's body in source order; a function nested in it counts as one node."""
    documented = ast.get_docstring(function, clean=False) is not None
    stack: list[ast.AST] = [*reversed(function.body[documented:])]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            children = list(ast.iter_child_nodes(node))
            stack.extend(child for child in reversed(children) if not isinstance(child, ast.expr_context))


def complexity(function: FunctionNode) -> int:
    """Cyclomatic complexity: one, and one more for each place where the code can take another way.

    Those are `if`, `elif` and conditional expressions, loops, `for` and `if` in comprehensions, `except`,
    `assert`, every `case` that can fail to match, and each further operand of `and` and `or`.
    """
    total = 1
    for node in own_nodes(function):
        total += isinstance(node, _BRANCHES)
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += len(node.ifs)
        elif isinstance(node, ast.match_case):
            total += node.guard is not None or not _matches_all(node.pattern)
    return total


def _matches_all(pattern: ast.pattern) -> bool:
    """`case _` and `case name`."""
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def length(function: FunctionNode) -> int:
    """Lines from `def` to the end of the body."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def fingerprint(function: FunctionNode) -> Sketch:
    """A sketch of a function's shape, blind to the names of variables and to the values of constants.

    Its syntax nodes are read as words, every `SHINGLE` neighbouring words are hashed, and of every `WINDOW`
    neighbouring hashes the smallest is kept (Schleimer et al., "Winnowing", 2003). crc32 is the same in every
    process, unlike `hash`.

    Returns:
        The kept hashes, sorted; empty for a function that is too small to be compared.
    """
    words = [word(node) for node in own_nodes(function)]
    if len(words) < MIN_NODES:
        return ()
    text = b"".join(words)
    hashes = [crc32(text[i : i + 4 * SHINGLE]) for i in range(0, len(text) - 4 * SHINGLE + 1, 4)]
    return tuple(sorted({min(hashes[i : i + WINDOW]) for i in range(len(hashes) - WINDOW + 1)}))


def word(node: ast.AST) -> bytes:
    """Four bytes for a kind of node; attributes keep their name, since `a.append` is not `a.clear`."""
    name = node.attr if isinstance(node, ast.Attribute) else ""
    return crc32(f"{type(node).__name__}.{name}".encode()).to_bytes(4, "big")


# --- comparing all of them ----------------------------------------------------------------------------------


def near_duplicates(sketches: dict[str, Sketch]) -> list[list[str]]:
    """Groups of functions linked by a similarity of at least `SIMILAR`; exact, without comparing all pairs.

    Two sets can only be so similar if they share one of their rarest members: with 80 per cent, one of the
    rarest fifth of each, and one more (prefix filtering).
    """
    common = Counter(mark for sketch in sketches.values() for mark in sketch)
    index: dict[int, list[str]] = defaultdict(list)
    parent = {name: name for name in sketches}
    for name in sorted(sketches):
        rarest = sorted(sketches[name], key=lambda mark: (common[mark], mark))
        prefix = rarest[: len(rarest) * (100 - SIMILAR) // 100 + 1]
        for other in dict.fromkeys(candidate for mark in prefix for candidate in index[mark]):
            if similar(sketches[name], sketches[other]):
                parent[find(parent, name)] = find(parent, other)
        for mark in prefix:
            index[mark].append(name)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(sketches):
        groups[find(parent, name)].append(name)
    return sorted(group for group in groups.values() if len(group) > 1)


def similar(left: Sketch, right: Sketch) -> bool:
    """True when at least `SIMILAR` per cent of the members of either sketch are in both."""
    both = len(set(left).intersection(right))
    return 100 * both >= SIMILAR * (len(left) + len(right) - both)


def find(parent: dict[str, str], name: str) -> str:
    """The representative of a name's group (union-find with path halving)."""
    while parent[name] != name:
        parent[name] = parent[parent[name]]
        name = parent[name]
    return name


def spread(distribution: dict[int, int]) -> dict[str, Any]:
    """Mean, percentiles and bands of a tally of complexities."""
    values = sorted(distribution.items())
    count = sum(distribution.values())
    ends = list(accumulate(n for _, n in values))
    percentiles = {
        name: next((value for (value, _), end in zip(values, ends, strict=True) if 100 * end >= p * count), 0)
        for name, p in (("median", 50), ("p90", 90), ("p99", 99), ("max", 100))
    }
    bands = {
        f"{low}-{high}" if high else f"{low}+": sum(n for v, n in values if low <= v <= (high or v))
        for low, high in ((1, 5), (6, 10), (11, 20), (21, 50), (51, None))
    }
    mean = round(sum(value * n for value, n in values) / count, 3) if count else 0.0
    return {"mean": mean, **percentiles, "bands": bands}


def digest(report: Any) -> str:
    """SHA-256 of the report as canonical JSON: the same on every executor."""
    text = json.dumps(report, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def rows(report: dict[str, Any], top: int) -> Iterable[str]:
    """The report as lines of text."""
    totals = report["totals"]
    yield "{packages} packages, {modules} modules, {functions} functions, {lines} lines".format(**totals)
    yield "complexity: " + ", ".join(f"{key} {value}" for key, value in report["complexity"].items())
    for title in ("most_complex", "longest"):
        yield f"\n{title.replace('_', ' ')}:"
        for entry in report[title][:top]:
            yield f"  {entry['complexity']:5} {entry['lines']:5} lines  {entry['function']}"
    duplicates = report["duplicates"]
    yield f"\nnear-duplicates in different packages: {duplicates['groups']} groups"
    for group in duplicates["largest"][:top]:
        yield "  " + "  ~  ".join(group[:4]) + (f"  and {len(group) - 4} more" if len(group) > 4 else "")


def main() -> None:
    """Run the census and print it."""
    parser = argparse.ArgumentParser(description="A census of the Python standard library.")
    parser.add_argument("--executor", choices=["ray", "processes", "threads", "inline"])
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N packages by name")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="rows per ranking (default 5)")
    options = parser.parse_args()

    app = build().compile(executor=options.executor)
    run = app.stream({"groups": packages(options.limit)}, stream_mode=["updates"])
    done = 0
    for _mode, update in run:
        done += "measure" in update
        print(f"\rmeasured {done}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    report = run.report.output["report"]
    print(*rows(report, options.top), sep="\n")
    print(f"\nwall {run.report.wall:.2f} s, CPU of the tasks {run.report.cpu:.2f} s", file=sys.stderr)
    print(f"digest: {digest(report)}")


if __name__ == "__main__":
    main()
