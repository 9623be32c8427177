"""The pure functions of the census: complexity by hand, copies found, merges in any order."""

from __future__ import annotations

import ast
import random
import textwrap
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raygraph.examples import stdlib_census as census


def parse(source: str) -> dict[str, census.FunctionNode]:
    return dict(census.functions(ast.parse(textwrap.dedent(source))))


def only(source: str) -> census.FunctionNode:
    return next(iter(parse(source).values()))


# Each was counted by hand: 1, and 1 for each mark in the comment.
COMPLEXITIES = {
    "def f(): pass": 1,
    "def f(x):\n    '''if or and'''\n    return x": 1,
    "def f(x):\n    if x: return 1\n    elif x > 2: return 2\n    else: return 3": 3,
    "def f(x): return 1 if x else 2": 2,
    "def f(x): return x and x > 1 and x > 2": 3,
    "def f(x): return x and (x or 1)": 3,
    "def f(xs):\n    for x in xs:\n        while x:\n            x -= 1\n    else:\n        pass": 3,
    "async def f(xs):\n    async for x in xs:\n        pass": 2,
    "def f(xs): return [x for x in xs if x if x > 1]": 4,
    "def f(xs): return {x: y for x in xs for y in x}": 3,
    "def f():\n    try: pass\n    except OSError: pass\n    except ValueError: pass\n    finally: pass": 3,
    "def f(x): assert x": 2,
    "def f(x):\n    with x: pass": 1,
    "def f(x):\n    match x:\n        case 1: pass\n        case [2, _]: pass\n        case _: pass": 3,
    "def f(x):\n    match x:\n        case y if y > 1: pass\n        case y: pass": 2,
    "def f():\n    def g(x):\n        if x: pass\n    return g": 1,
    "def f(): return lambda x: x or 1": 2,
}


@pytest.mark.parametrize("source", COMPLEXITIES)
def test_complexity_is_what_one_counts_by_hand(source: str) -> None:
    assert census.complexity(only(source)) == COMPLEXITIES[source]


def test_functions_are_found_with_their_qualified_names_in_source_order() -> None:
    source = """
        def first():
            def inner():
                pass
        class Box:
            async def method(self):
                class Local:
                    def deep(self): pass
        if True:
            def conditional(): pass
        """
    expected = ["first", "first.inner", "Box.method", "Box.method.Local.deep", "conditional"]
    assert list(parse(source)) == expected


def test_length_counts_from_def_to_the_last_line() -> None:
    assert census.length(only("@decorated\ndef f(\n    x,\n):\n    return (\n        x\n    )")) == 6


ORIGINAL = """
    def load(path, limit):
        '''Load a file.'''
        found = {}
        for number, line in enumerate(open(path)):
            name, _, value = line.strip().partition("=")
            if not name or name.startswith("#"):
                continue
            if number > limit:
                raise ValueError("too long")
            found.setdefault(name.lower(), []).append(value)
        return {key: sorted(values) for key, values in found.items() if len(values) > 1}
    """
RENAMED = """
    def read_settings(where, most):
        result = {}
        for i, row in enumerate(open(where)):
            k, _, v = row.strip().partition(":")
            if not k or k.startswith(";"):
                continue
            if i > most:
                raise KeyError("no more")
            result.setdefault(k.lower(), []).append(v)
        return {a: sorted(b) for a, b in result.items() if len(b) > 2}
    """
EDITED = ORIGINAL.replace('raise ValueError("too long")', "break")
UNRELATED = """
    def area(points):
        total = 0
        for left, right in zip(points, points[1:] + points[:1]):
            total += left.x * right.y - right.x * left.y
        if total < 0:
            total = -total
        while total > 1e9:
            total /= 10
        return math.sqrt(total / 2) + sum(p.x ** 2 + p.y ** 2 for p in points) / len(points)
    """


def sketches(**sources: str) -> dict[str, census.Sketch]:
    return {name: census.fingerprint(only(source)) for name, source in sources.items()}


def test_a_renamed_copy_is_found_and_an_unrelated_function_is_not() -> None:
    found = sketches(original=ORIGINAL, renamed=RENAMED, unrelated=UNRELATED)
    assert all(found.values())
    assert found["original"] == found["renamed"]
    assert census.near_duplicates(found) == [["original", "renamed"]]


def test_a_copy_with_one_statement_changed_is_nearer_than_an_unrelated_function() -> None:
    found = {name: set(sketch) for name, sketch in sketches(a=ORIGINAL, b=EDITED, c=UNRELATED).items()}
    assert len(found["a"] & found["b"]) > 5 * len(found["a"] & found["c"])
    assert found["a"] != found["b"]


def test_the_name_of_a_method_matters() -> None:
    assert census.fingerprint(only(ORIGINAL)) != census.fingerprint(only(ORIGINAL.replace("append", "extend")))


def test_a_small_function_has_no_sketch() -> None:
    assert census.fingerprint(only("def f(self, x): self.x = x")) == ()


SKETCHES = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3),
    st.sets(st.integers(0, 12), min_size=1, max_size=10).map(lambda marks: tuple(sorted(marks))),
    max_size=12,
)


@given(SKETCHES)
def test_prefix_filtering_misses_nothing_that_comparing_all_pairs_finds(found: dict[str, census.Sketch]) -> None:
    groups = {name: {name} for name in found}
    for left in found:
        for right in found:
            both = len(set(found[left]) & set(found[right]))
            if both * 100 >= census.SIMILAR * (len(found[left]) + len(found[right]) - both):
                merged = groups[left] | groups[right]
                groups.update(dict.fromkeys(merged, merged))
    expected = sorted({tuple(sorted(group)) for group in groups.values() if len(group) > 1})
    assert census.near_duplicates(found) == list(map(list, expected))


@given(SKETCHES, st.randoms(use_true_random=False))
def test_near_duplicates_do_not_depend_on_the_order(found: dict[str, census.Sketch], rng: random.Random) -> None:
    shuffled = list(found.items())
    rng.shuffle(shuffled)
    assert census.near_duplicates(dict(shuffled)) == census.near_duplicates(found)


COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(-5, 5), max_size=4)
ENTRIES = st.lists(
    st.builds(
        census.Entry,
        function=st.sampled_from(["m:f", "m:g", "n:f"]),
        complexity=st.integers(1, 3),
        lines=st.integers(1, 3),
    ),
    max_size=3 * census.TOP,
)
MERGES = [(census.add_counts, COUNTS), (census.most_complex, ENTRIES), (census.longest, ENTRIES)]


@pytest.mark.parametrize(("merge", "values"), MERGES, ids=lambda value: getattr(value, "__name__", ""))
@given(data=st.data())
def test_merges_are_associative_and_commutative(merge: Any, values: Any, data: st.DataObject) -> None:
    a, b, c = data.draw(values), data.draw(values), data.draw(values)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(merge(a, b), c) == merge(merge(c, b), a)


def test_a_ranking_is_bounded_and_breaks_ties_by_name() -> None:
    many = [census.Entry(function=f"m:f{i:03}", complexity=2, lines=2) for i in range(census.TOP + 5)]
    ranked = census.most_complex(many[::-1], [census.Entry(function="m:z", complexity=3, lines=1)])
    assert [entry["function"] for entry in ranked] == ["m:z", *(f"m:f{i:03}" for i in range(census.TOP - 1))]


REDUCERS = {
    "totals": census.add_counts,
    "distribution": census.add_counts,
    "most_complex": census.most_complex,
    "longest": census.longest,
    "sketches": census.union,
}


def report_of(updates: list[census.Census], groups: list[census.Group]) -> Any:
    state: Any = {"groups": groups}
    for key, reducer in REDUCERS.items():
        state[key] = reduce(reducer, [update[key] for update in updates])  # type: ignore[literal-required]
    return census.union(census.summarise(state)["report"], census.compare(state)["report"])


def test_the_digest_does_not_depend_on_the_order_in_which_tasks_finish() -> None:
    groups = census.packages(limit=8)
    updates = [census.measure(group) for group in groups]
    digests = set()
    for seed in range(5):
        random.Random(seed).shuffle(updates)
        digests.add(census.digest(report_of(updates, groups)))
    assert len(digests) == 1


def test_a_file_that_does_not_parse_is_counted_and_not_fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.py").write_text("def f(x):\n    return x or 1\n")
    (tmp_path / "bad.py").write_text("def f(:\n")
    monkeypatch.setattr(census, "stdlib", lambda: tmp_path)
    update = census.measure({"package": "p", "files": ["good.py", "bad.py"], "size": 1})
    assert update["totals"] == {"packages": 0, "modules": 1, "lines": 2, "functions": 1, "unreadable": 1}
    assert update["most_complex"] == [{"function": "good:f", "complexity": 2, "lines": 2}]


def test_large_packages_are_measured_in_parts_and_the_largest_part_comes_first() -> None:
    half = census.PART_BYTES // 2
    files = [("p/a.py", half), ("p/b.py", half), ("p/c.py", half), ("p/d.py", 1)]
    parts = list(census.split("p", files))
    assert [part["files"] for part in parts] == [["p/a.py", "p/b.py"], ["p/c.py", "p/d.py"]]
    sizes = [group["size"] for group in census.packages()]
    assert sizes == sorted(sizes, reverse=True)


def test_packages_name_no_folder_of_this_machine_and_no_tests() -> None:
    files = [file for group in census.packages() for file in group["files"]]
    assert len(files) == len(set(files)) > 100
    assert "json/decoder.py" in files
    assert not any(file.startswith("/") or "test" in file.split("/")[:-1] for file in files)


def test_without_sources_the_error_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "stdlib", lambda: tmp_path)
    with pytest.raises(FileNotFoundError, match="no Python source files"):
        census.packages()


def test_spread_finds_percentiles_and_bands() -> None:
    assert census.spread({1: 50, 3: 40, 7: 9, 60: 1}) == {
        "mean": 2.93,
        "median": 1,
        "p90": 3,
        "p99": 7,
        "max": 60,
        "bands": {"1-5": 90, "6-10": 9, "11-20": 0, "21-50": 0, "51+": 1},
    }
    assert census.spread({})["max"] == 0


def test_module_names() -> None:
    assert census.module_name("json/__init__.py") == "json"
    assert census.module_name("json/decoder.py") == "json.decoder"
    assert census.package_of("json.decoder:f:12") == "json"
