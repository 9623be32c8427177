"""README's table of differences and the list the tests hold are one."""

from tests.conftest import ROOT
from tests.parity.differences import DIFFERENCES, table

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_each_difference_is_in_the_readme():
    missing = [d.title for d in DIFFERENCES if f"| {d.title} |" not in README]
    assert not missing, f"README.md lacks these rows (python -m tests.parity.differences prints them): {missing}"


def test_the_readme_has_no_other_rows():
    """A row that no test holds may be untrue by now."""
    header = "| | LangGraph | raygraph |\n|---|---|---|\n"
    assert header in README
    rows = README.split(header)[1].split("\n\n")[0].splitlines()
    known = {d.title for d in DIFFERENCES}
    assert [row for row in rows if row.split(" | ")[0].removeprefix("| ") not in known] == []
    assert len(table().splitlines()) == len(DIFFERENCES)
