"""One graph, two engines: build it once, run it on LangGraph and on raygraph, compare what can be seen.

A graph is a function of one argument, the namespace `lg`, which serves the same names from either library. What
is compared (`Observed`) is the result of `invoke`, and the `stream(stream_mode=["values", "updates"])` of a second
run: the `values` chunks in their order, and between two of them the `updates` chunks as a multiset, since tasks of
one super-step may finish in any order. An exception is compared by the name of its class.

This module imports neither library until a name is asked for: it is also imported in raygraph's worker processes.
"""

import asyncio
import copy
import dataclasses
import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Super-steps that every parity run may take: high enough for all, since the two engines count differently at
#: the limit itself (see `differences.py`).
LIMIT = 60

_GRAPH = ("START", "END", "StateGraph", "MessagesState", "add_messages")
_TYPES = ("Send", "Command", "Overwrite", "RetryPolicy")
_CHANNELS = (
    "AnyValue",
    "BinaryOperatorAggregate",
    "EphemeralValue",
    "LastValue",
    "Topic",
    "UntrackedValue",
)
_ERRORS = ("EmptyInputError", "GraphRecursionError", "InvalidUpdateError", "ParentCommand")

_WHERE: dict[str, dict[str, str]] = {
    "langgraph": {
        **dict.fromkeys(_GRAPH, "langgraph.graph"),
        **dict.fromkeys(_TYPES, "langgraph.types"),
        **dict.fromkeys(_CHANNELS, "langgraph.channels"),
        **dict.fromkeys(_ERRORS, "langgraph.errors"),
        **dict.fromkeys(("IsLastStep", "RemainingSteps"), "langgraph.managed"),
        **dict.fromkeys(("get_config", "get_stream_writer"), "langgraph.config"),
        "Runtime": "langgraph.runtime",
    },
    "raygraph": {
        **dict.fromkeys(_GRAPH + _TYPES, "raygraph"),
        **dict.fromkeys(_CHANNELS, "raygraph.channels"),
        **dict.fromkeys(_ERRORS, "raygraph.errors"),
        **dict.fromkeys(("IsLastStep", "RemainingSteps"), "raygraph.managed"),
        **dict.fromkeys(("get_config", "get_stream_writer"), "raygraph"),
        "Runtime": "raygraph",
    },
}


class Namespace:
    """The names of one engine, looked up when first used, so that a missing one fails only the tests that use it."""

    def __init__(self, engine: str, executor: Any = "inline") -> None:
        self.engine = engine
        self.executor = executor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _WHERE[self.engine]:
            raise AttributeError(name)
        value = getattr(importlib.import_module(_WHERE[self.engine][name]), name)  # AttributeError if not there yet
        self.__dict__[name] = value
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        # Nodes that make a `Send` have captured their namespace: in a worker it is looked up again.
        return (Namespace, (self.engine, self.executor if isinstance(self.executor, str) else "inline"))

    def compile(self, builder: Any, *, strict: bool = True, **kwargs: Any) -> Any:
        """`builder.compile(...)`, with raygraph's own arguments where the builder is raygraph's."""
        if self.engine == "raygraph":
            kwargs |= {"executor": self.executor, "strict": strict}
        return builder.compile(**kwargs)


LANGGRAPH = Namespace("langgraph")


def raygraph(executor: Any = "inline") -> Namespace:
    return Namespace("raygraph", executor)


def canon(value: Any) -> str:
    """A text that is equal for equal values of equal types, however sets and dicts are ordered in memory."""
    if isinstance(value, Mapping):
        items = sorted((canon(k), canon(v)) for k, v in value.items())
        return "{" + ", ".join(f"{k}: {v}" for k, v in items) + "}"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}(" + ", ".join(sorted(map(canon, value))) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(canon, value)) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(canon(v) + ", " for v in value) + ")"
    if isinstance(value, BaseException):
        return f"{type(value).__name__}{canon(value.args)}"
    if type(value).__name__ == "Overwrite":  # LangGraph's has a second field, always the same
        return f"Overwrite({canon(value.value)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__ + canon({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    if hasattr(value, "model_dump"):
        return type(value).__name__ + canon(value.model_dump())
    return repr(value)


@dataclass(frozen=True)
class Failure:
    """An exception, as far as two engines can agree on it: the names of its classes, and its text."""

    kind: str
    kinds: frozenset[str] = field(compare=False)
    text: str = field(compare=False)

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        return cls(type(error).__name__, frozenset(c.__name__ for c in type(error).__mro__), str(error))


@dataclass(frozen=True)
class Observed:
    """What a user sees of a graph: what `invoke` returned or raised, and what `stream` yielded before it ended."""

    final: Any
    failure: Failure | None
    stream: tuple[tuple[str, Any], ...]

    @property
    def values(self) -> list[str]:
        return [chunk for mode, chunk in self.stream if mode == "values"]

    @property
    def updates(self) -> list[tuple[str, ...]]:
        return [chunk for mode, chunk in self.stream if mode == "updates"]


def group(chunks: Iterable[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """Canonical texts of the stream; a run of chunks of one mode other than `values` becomes one sorted tuple."""
    out: list[tuple[str, Any]] = []
    for mode, chunk in chunks:
        if mode == "values":
            out.append((mode, canon(chunk)))
        elif out and out[-1][0] == mode:
            out[-1] = (mode, tuple(sorted((*out[-1][1], canon(chunk)))))
        else:
            out.append((mode, (canon(chunk),)))
    return tuple(out)


@dataclass(frozen=True)
class Case:
    """A graph, what to run it on, and what must come out on both engines.

    Attributes:
        build: Takes a namespace, returns a builder or a compiled graph.
        input: The run's input, or a function of the namespace that makes it.
        final: What `invoke` returns, where it returns.
        error: Name of the class that `invoke` raises; raygraph's may be a subclass of that name.
        match: Pattern that both texts contain, given only where raygraph keeps LangGraph's wording.
        config: Passed on, with a recursion limit added.
        modes: Stream modes to compare.
        kwargs: Further arguments of `invoke` and `stream`.
        strict: `strict=` for raygraph.
        needs: A name that raygraph does not have yet; until then only LangGraph's value is checked.
        run_async: Through `ainvoke` and `astream`: LangGraph runs async nodes only there.
    """

    name: str
    build: Callable[[Any], Any]
    input: Any
    final: Any = None
    error: str | None = None
    match: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    modes: tuple[str, ...] = ("values", "updates")
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = True
    needs: str | None = None
    run_async: bool = False


def observe(case: Case, lg: Any) -> Observed:
    """Run a case on one engine: once by `invoke`, once by `stream`."""
    try:
        app = case.build(lg)
        if not hasattr(app, "invoke"):
            app = lg.compile(app, strict=case.strict)
    except Exception as error:
        return Observed(None, Failure.of(error), ())
    value = case.input(lg) if callable(case.input) else case.input
    config = {"recursion_limit": LIMIT, **case.config}
    run = _run_async if case.run_async else _run
    final, failure, chunks = run(app, value, config, list(case.modes), dict(case.kwargs))
    return Observed(final, failure, group(chunks))


def _run(app: Any, value: Any, config: Any, modes: list[str], kwargs: Any) -> tuple[Any, Failure | None, list[Any]]:
    final, chunks = None, []
    failed: list[Failure | None] = [None, None]
    try:
        final = app.invoke(copy.deepcopy(value), config, **kwargs)
    except Exception as error:
        failed[0] = Failure.of(error)
    try:
        for chunk in app.stream(copy.deepcopy(value), config, stream_mode=modes, **kwargs):
            chunks.append(copy.deepcopy(chunk))
    except Exception as error:
        failed[1] = Failure.of(error)
    assert failed[0] == failed[1], f"invoke raised {failed[0]}, stream raised {failed[1]}"
    return final, failed[0], chunks


def _run_async(
    app: Any, value: Any, config: Any, modes: list[str], kwargs: Any
) -> tuple[Any, Failure | None, list[Any]]:
    async def both() -> tuple[Any, Failure | None, list[Any]]:
        final, chunks = None, []
        failed: list[Failure | None] = [None, None]
        try:
            final = await app.ainvoke(copy.deepcopy(value), config, **kwargs)
        except Exception as error:
            failed[0] = Failure.of(error)
        try:
            async for chunk in app.astream(copy.deepcopy(value), config, stream_mode=modes, **kwargs):
                chunks.append(copy.deepcopy(chunk))
        except Exception as error:
            failed[1] = Failure.of(error)
        assert failed[0] == failed[1], f"ainvoke raised {failed[0]}, astream raised {failed[1]}"
        return final, failed[0], chunks

    return asyncio.run(both())


def check_expected(case: Case, seen: Observed, engine: str) -> None:
    """Hold one engine's result against what the case says."""
    if case.error is None:
        assert seen.failure is None, f"{engine} raised {seen.failure}: {seen.failure and seen.failure.text}"
        assert canon(seen.final) == canon(case.final), f"{engine}: another final state"
        return
    assert seen.failure is not None, f"{engine} returned {seen.final!r}, expected {case.error}"
    assert case.error in seen.failure.kinds, f"{engine} raised {seen.failure}: {seen.failure.text}"
    if case.match is not None:
        assert re.search(case.match, seen.failure.text), f"{engine}: {seen.failure.text!r}"


def check_parity(case: Case, *, executor: Any = "inline") -> None:
    """Run a case on both engines and compare all that is seen, with each other and with what the case says."""
    reference = observe(case, LANGGRAPH)
    check_expected(case, reference, "langgraph")
    ours = observe(case, raygraph(executor))
    check_expected(case, ours, "raygraph")
    if reference.failure is None:
        assert ours.stream == reference.stream
    else:  # which siblings finished before the one that failed is a matter of timing
        assert ours.values == reference.values


#: The hand-written cases, by name, in the order of the file.
Registry = dict[str, Case]


def registrar(registry: Registry) -> Callable[..., Callable[[Callable[[Any], Any]], Callable[[Any], Any]]]:
    """A decorator that files a build function as a case of `registry`."""

    def case(value: Any = None, **fields: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        def file(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
            name = build.__name__
            assert name not in registry, f"two cases are called {name}"
            registry[name] = Case(name, build, value, **fields)
            return build

        return file

    return case
