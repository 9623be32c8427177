"""Profiling a CSV file: what files in the wild look like, and the three nodes' parts of the profile."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from raygraph.examples import profile_csv


def read(tmp_path: Path, content: str | bytes, **options: Any) -> tuple[dict[str, list[str | None]], list[str]]:
    path = tmp_path / "file.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return profile_csv.read_columns(path, **options)


def profile(columns: dict[str, list[str | None]]) -> Any:
    app = profile_csv.build().compile(executor="inline")
    return app.invoke({"columns": columns})["column_profile"]


def test_three_nodes_fill_one_key() -> None:
    assert profile({"age": ["30", "41", None, "30"], "name": ["Ada", "", "Bo", "Cy"]}) == {
        "age": {"dtype": "integer", "missing": 1, "missing_rate": 0.25, "distinct": 2, "most_common": "30"},
        "name": {"dtype": "text", "missing": 1, "missing_rate": 0.25, "distinct": 3, "most_common": "Ada"},
    }


def test_columns_without_rows() -> None:
    assert profile({"a": []}) == {
        "a": {"dtype": "empty", "missing": 0, "missing_rate": 0.0, "distinct": 0, "most_common": None}
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-20", " 3 "], "integer"),
        (["1", "2.5", "1e-3", ".5"], "number"),
        (["true", "False"], "boolean"),
        (["2024-02-29", "2023-01-01"], "date"),
        (["2024-02-29T10:00:00", "2023-01-01 00:00:01"], "datetime"),
        (["2023-02-29"], "text"),
        (["1_000"], "text"),
        (["1", "x"], "text"),
        (["NA", "null", "", None], "empty"),
        (["NA", "7"], "integer"),
    ],
)
def test_types(values: list[str | None], expected: str) -> None:
    assert profile_csv.type_of(values) == expected


def test_quotes_line_ends_and_blank_lines(tmp_path: Path) -> None:
    columns, remarks = read(tmp_path, 'a,b\r\n1,"x,\ny"\r\n\r\n2,"say ""hi"""\r\n')
    assert columns == {"a": ["1", "2"], "b": ["x,\ny", 'say "hi"']}
    assert remarks == []


def test_ragged_rows_give_missing_cells_and_further_columns(tmp_path: Path) -> None:
    columns, remarks = read(tmp_path, "a,b\n1\n1,2,3\n1,2\n")
    assert columns == {"a": ["1", "1", "1"], "b": [None, "2", "2"], "column 3": [None, "3", None]}
    assert remarks == ["2 of 3 rows are shorter or longer than the first"]


def test_a_header_wider_than_every_row(tmp_path: Path) -> None:
    columns, _ = read(tmp_path, "a,b,c\n1\n2\n")
    assert columns == {"a": ["1", "2"], "b": [None, None], "c": [None, None]}


def test_blank_and_repeated_names(tmp_path: Path) -> None:
    columns, _ = read(tmp_path, "a,,a,a (2)\n1,2,3,4\n")
    assert columns == {"a": ["1"], "column 2": ["2"], "a (2)": ["3"], "a (2) (2)": ["4"]}


def test_without_a_header_the_first_row_is_data(tmp_path: Path) -> None:
    assert read(tmp_path, "1,2\n3,4\n", header=False)[0] == {"column 1": ["1", "3"], "column 2": ["2", "4"]}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(tmp_path: Path, delimiter: str) -> None:
    columns, _ = read(tmp_path, f'"a,b;c"{delimiter}d\n1{delimiter}2\n')
    assert columns == {"a,b;c": ["1"], "d": ["2"]}


def test_one_column(tmp_path: Path) -> None:
    assert read(tmp_path, "a\n1\n2\n")[0] == {"a": ["1", "2"]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    columns, remarks = read(tmp_path, "naïve\n€\n".encode(encoding))
    assert columns == {"naïve": ["€"]}
    assert remarks == []


def test_latin_1_is_the_last_resort_and_is_said(tmp_path: Path) -> None:
    columns, remarks = read(tmp_path, "café\n1\n".encode("latin-1"))
    assert columns == {"café": ["1"]}
    assert remarks == ["not UTF-8 (byte 3), so read as Latin-1"]


def test_a_huge_cell(tmp_path: Path) -> None:
    columns, _ = read(tmp_path, f'a,b\n"{"x" * 1_000_000}",2\n')
    assert columns["a"] == ["x" * 1_000_000]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_an_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match="the file is empty"):
        read(tmp_path, content)


def script(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    path = Path(profile_csv.__file__).resolve()
    monkeypatch.setattr(sys, "argv", [str(path), *arguments, "--executor", "inline"])
    runpy.run_path(str(path), run_name="__main__")


def test_a_missing_file_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        script(monkeypatch, "no_such.csv")
    assert stopped.value.code == 2
    assert "cannot read no_such.csv: No such file or directory" in capsys.readouterr().err


def test_without_a_file_it_profiles_its_sample(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script(monkeypatch)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["column", "dtype", "missing", "distinct", "most", "common"]
    assert lines[3][:4] == ["joined", "date", "1", "(25.0%)"]
    assert len(lines) == 7
