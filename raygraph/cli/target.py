"""Finding the graph that the command line names: `package.module:attribute` or `path/file.py:attribute`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from raygraph.cli.problems import Problem, user_frames
from raygraph.errors import did_you_mean


def load_app(target: str) -> Any:
    """The compiled graph that `target` names.

    Args:
        target: `module:attribute` or `file.py:attribute`. The attribute is a compiled graph, a graph still to
            be compiled, or a function without arguments that returns either.

    Raises:
        Problem: There is no such module, file or attribute, its code fails, or it is something else.
    """
    where, _, attribute = target.rpartition(":")
    if not where or not attribute:
        raise Problem(
            f"{target!r} names no graph: write module:attribute, such as package.module:app or my_file.py:app"
        )
    value: Any = _load_file(Path(where)) if where.endswith(".py") else _load_module(where)
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise Problem(f"{where!r} has no attribute {name!r}.{did_you_mean(name, dir(value))}")
        value = getattr(value, name)
    return _compiled(value, target)


def _load_module(name: str) -> ModuleType:
    _make_importable(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise Problem(
                f"there is no module {error.name!r} in {os.getcwd()} or the Python path (for a file, write "
                f"{name.replace('.', '/')}.py:...)"
            ) from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Problem(f"there is no file {str(path)!r}")
    _make_importable(os.getcwd())
    _make_importable(str(path.parent.resolve()))
    # The name of an importable module would be taken for that module by whoever unpickles its functions.
    name = path.stem if path.stem.isidentifier() and not _is_importable(path) else f"raygraph_run_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None  # noqa: PT018 - every .py file has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(str(path), error) from error
    _send_by_value(module)
    return module


def _is_importable(path: Path) -> bool:
    """Another module than the file itself has its name."""
    try:
        spec = importlib.util.find_spec(path.stem)
    except (ImportError, ValueError):
        return True
    return spec is not None and (spec.origin is None or Path(spec.origin) != path.resolve())


def _send_by_value(module: ModuleType) -> None:
    """Let the file's functions and classes travel to workers, which may not be able to import them."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(module)


def _make_importable(folder: str) -> None:
    """Put a folder on the path, as `python -m` and `python FILE` do, also for worker processes to come."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, inherited)])


def _broken(name: str, error: BaseException) -> Problem:
    """Importing the module failed in its own code: show that code's frames."""
    frames = [f for f in user_frames(error.__traceback__) if "importlib" not in f.filename]
    trace = "".join(["\n", *traceback.format_list(frames)]).rstrip()
    return Problem(f"importing {name!r} failed: {type(error).__name__}: {error}{trace}")


def _compiled(value: Any, target: str) -> Any:
    for _ in range(2):
        if _origin(value) == "langgraph":
            raise Problem(f"{target!r} is a graph of LangGraph: import StateGraph from raygraph instead")
        if callable(getattr(value, "invoke", None)) and callable(getattr(value, "stream", None)):
            return value
        if callable(getattr(value, "compile", None)) and not isinstance(value, type):
            return _compile(value, target)
        if not _is_factory(value):
            break
        value = _call(value, target)
    raise Problem(
        f"{target!r} is {_article(type(value).__name__)}, not a graph: it has to be a compiled graph, "
        f"a StateGraph, or a function without arguments that returns one"
    )


def _origin(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _is_factory(value: Any) -> bool:
    if not (inspect.isfunction(value) or inspect.ismethod(value)) or inspect.iscoroutinefunction(value):
        return False
    required = [p for p in inspect.signature(value).parameters.values() if p.default is p.empty]
    return all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in required)


def _call(factory: Any, target: str) -> Any:
    try:
        return factory()
    except Exception as error:
        raise _broken(target, error) from error


def _compile(graph: Any, target: str) -> Any:
    try:
        return graph.compile()
    except Exception as error:
        raise Problem(f"{target!r} does not compile: {error}") from error


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
