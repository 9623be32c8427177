"""The command `raygraph` and its list of commands."""

from __future__ import annotations

import click

from raygraph.cli.demo import demo
from raygraph.cli.run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="raygraph")
def main() -> None:
    """Run state graphs on every core of this machine, or of a Ray cluster."""


main.add_command(demo)
main.add_command(run)
