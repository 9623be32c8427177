"""`raygraph run`: run a graph from the command line, JSON in and JSON out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from raygraph.cli.json_io import ENCODING_HELP, read_json, to_json
from raygraph.cli.output import Emit, result_only
from raygraph.cli.problems import EXIT_FAILED, Problem, describe_failure, interruptible, is_request_at_fault

EXECUTORS: Final = ("ray", "processes", "threads", "inline")
_VARIABLE: Final = "RAYGRAPH_EXECUTOR"
STREAM_MODES: Final = ("values", "updates", "custom")

_EPILOG: Final = f"""\
Only JSON is written to standard output; what nodes print goes to standard error. Exit codes: 0 done, 1 the
graph failed, 2 it could not be started as asked, 130 interrupted.

{ENCODING_HELP}"""


@click.command(epilog=_EPILOG)
@click.argument("target")
@click.option(
    "--input",
    "source",
    default="{}",
    metavar="JSON|@FILE|-",
    help="The input: JSON, @FILE, or - for standard input.",
)
@click.option("--executor", type=click.Choice(EXECUTORS), help="Where the nodes run.")
@click.option("--config", "config_source", metavar="JSON|@FILE", help="The config of the run.")
@click.option("--recursion-limit", type=click.IntRange(min=1), metavar="N", help="Super-steps at most.")
@click.option("--seed", type=int, metavar="N", help="The seed of the run.")
@click.option(
    "--stream",
    "modes",
    type=click.Choice(STREAM_MODES),
    multiple=True,
    help='Print each event as a line {"mode": ..., "data": ...} when it comes, and the final state as the '
    "last line, with the mode output. May be repeated.",
)
@interruptible
def run(
    target: str,
    source: str,
    executor: str | None,
    config_source: str | None,
    recursion_limit: int | None,
    seed: int | None,
    modes: tuple[str, ...],
) -> None:
    """Run the graph TARGET and print its final state as JSON.

    TARGET is package.module:attribute or path/to/file.py:attribute, looked up from the current directory: a
    compiled graph, a StateGraph, or a function without arguments that returns one.
    """
    value = read_json(source, "--input")
    config = _config(config_source, executor=executor, recursion_limit=recursion_limit, seed=seed)
    with result_only() as emit, _default_executor(executor):
        from raygraph.cli.target import load_app

        app = load_app(target)
        try:
            _run(app, value, config, modes, emit)
        except Exception as error:
            if is_request_at_fault(error):
                raise Problem(str(error)) from None
            click.echo(describe_failure(error), err=True)
            sys.exit(EXIT_FAILED)


@contextmanager
def _default_executor(name: str | None) -> Iterator[None]:
    """Let `compile()` take this executor, here and in workers, where the module does not say which."""
    before = os.environ.get(_VARIABLE)
    if name is not None:
        os.environ[_VARIABLE] = name
    try:
        yield
    finally:
        if name is not None:
            os.environ.pop(_VARIABLE)
            os.environ.update({_VARIABLE: before} if before is not None else {})


def _config(source: str | None, **options: Any) -> dict[str, Any]:
    """The run's config; an option of its own wins over the same setting inside `--config`."""
    config = read_json(source, "--config") if source is not None else {}
    if not isinstance(config, dict):
        raise Problem(f"--config: expected a JSON object, got {to_json(config)}")
    return {**config, **{name: value for name, value in options.items() if value is not None}}


def _run(app: Any, value: Any, config: dict[str, Any], modes: tuple[str, ...], emit: Emit) -> None:
    if not modes:
        emit(to_json(app.invoke(value, config), indent=2))
        return
    events = app.stream(value, config, stream_mode=list(modes))
    for mode, payload in events:
        emit(to_json({"mode": mode, "data": payload}))
    emit(to_json({"mode": "output", "data": events.report.output}))
