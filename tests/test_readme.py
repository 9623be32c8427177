"""The README's two commands are the truth: CI runs the second one to the letter."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_ci_runs_the_readmes_second_command() -> None:
    commands = re.findall(r"^python3 -m venv.*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) == 2
    assert commands[0].endswith(".venv/bin/raygraph demo")
    assert commands[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
