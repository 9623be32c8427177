"""Random state graphs, as plain data (`Spec`), and how to build one on either engine.

A node writes what it is called and a digest of all it saw, so that any difference in what a node was shown, in
the order of the fold, or in who ran when, ends up in the state. Routers choose by such a digest too: they are pure
functions of the state. Loops end because routers stop choosing once enough tasks have run (`bound`).

`draw(random)` takes anything that looks like `random.Random`: a seeded one, or Hypothesis' `st.randoms()`, which
shrinks.
"""

import operator
import zlib
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

from typing_extensions import TypedDict

from tests.parity.harness import Case, canon

#: Not in order: the fold goes by code point, and nodes are added as they stand here.
NAMES = ("m", "B", "z", "a10", "é", "a2", "_", "a")

#: Keys besides `xs` and `n`, with how often several tasks of a step may write them.
SHARED_KEYS = ("cat", "first", "st", "d", "m", "last", "topic", "topics", "any")
SINGLE_KEYS = ("v", "e", "un")


def last_of(old: Any, new: Any) -> Any:
    return new


def larger(old: int, new: int) -> int:
    return max(old, new)


def not_commutative(old: int, new: int) -> int:
    return (31 * old + new) % 1_000_003


def state_types(lg: Any) -> dict[str, Any]:
    return {
        "xs": Annotated[list, operator.add],
        "n": Annotated[int, operator.add],
        "cat": Annotated[str, operator.add],
        "first": Annotated[int, not_commutative],
        "st": Annotated[set, operator.or_],
        "d": Annotated[dict, operator.or_],
        "m": Annotated[int, larger],
        "last": Annotated[Any, last_of],
        "topic": Annotated[list, lg.Topic(str)],
        "topics": Annotated[list, lg.Topic(str, accumulate=True)],
        "any": Annotated[str, lg.AnyValue],
        "v": str,
        "e": Annotated[str, lg.EphemeralValue],
        "un": Annotated[str, lg.UntrackedValue],
    }


def digest(value: Any) -> int:
    return zlib.crc32(canon(value).encode())


def value_for(key: str, name: str, code: int) -> Any:
    """What node `name` writes to `key` having seen `code`."""
    word = f"{name}{code % 1000}"
    if key == "n":
        return 1
    if key in ("first", "m"):
        return code % 1000
    if key == "xs":
        return [word]
    if key == "st":
        return {word, code % 5}
    if key == "d":
        return {name: code % 1000, f"k{code % 3}": word}
    if key == "topics" and code % 2:
        return [word, word + "'"]
    return word


#: One thing a route leads to: ("to", node), ("send", node, how many), or ("end",).
Step = tuple[Any, ...]


@dataclass(frozen=True)
class Node:
    """A node: what it writes, in which form it returns it, where it goes to by `Command`, which keys it reads."""

    name: str
    kind: str  # dict, none, command, commands, sub
    writes: tuple[str, ...]
    goto: tuple[tuple[Step, ...], ...] = ()
    reads: tuple[str, ...] | None = None
    defer: bool = False


@dataclass(frozen=True)
class Router:
    """A conditional edge that picks one of `choices` by the state, and none once `bound` tasks have run."""

    source: str
    choices: tuple[tuple[Step, ...], ...]
    mapped: bool
    bound: int


@dataclass(frozen=True)
class Spec:
    nodes: tuple[Node, ...]
    edges: tuple[tuple[Any, str], ...]
    routers: tuple[Router, ...]
    keys: tuple[str, ...]
    input: tuple[tuple[str, Any], ...] = (("xs", ("in",)),)

    @property
    def sends(self) -> bool:
        return any(s[0] == "send" for steps in self._routes() for s in steps)

    @property
    def chooses(self) -> bool:
        return bool(self.routers) or any(node.goto for node in self.nodes)

    @property
    def joins(self) -> bool:
        return any(isinstance(start, tuple) for start, _ in self.edges)

    def _routes(self) -> list[tuple[Step, ...]]:
        return [c for r in self.routers for c in r.choices] + [c for n in self.nodes for c in n.goto]

    def run_input(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in self.input}


# ---- building -------------------------------------------------------------------------------------------------


def make_node(lg: Any, node: Node, bound: int = 12) -> Any:
    """The node's function, nested so that it travels to workers by value."""

    def run(state):
        code = digest(state)
        update = {key: value_for(key, node.name, code) for key in node.writes}
        if node.kind == "none":
            return None
        if node.kind == "dict":
            return update
        goto = ()
        if node.goto and isinstance(state, dict) and state.get("n", bound) < bound:
            goto = steps_to(lg, node.goto[code % len(node.goto)], state["n"])
        if node.kind == "command":
            return lg.Command(update=update, goto=goto)
        pairs = list(update.items())
        return [lg.Command(update=dict(pairs[:1])), dict(pairs[1:]), lg.Command(update=pairs[:1], goto=goto)]

    return run


def steps_to(lg: Any, steps: tuple[Step, ...], n: int) -> list[Any]:
    found: list[Any] = []
    for step in steps:
        if step[0] == "send":  # wide only near the start, or fans of fans would grow without measure
            found += [lg.Send(step[1], {"item": i}) for i in range(min(step[2], 11 if n < 2 else 2))]
        else:
            found.append(step[1] if step[0] == "to" else lg.END)
    return found


def make_router(lg: Any, router: Router, index: int) -> Any:
    def route(state):
        n = state.get("n", 0)
        if n >= router.bound:
            return []
        choice = steps_to(lg, router.choices[digest(state) % len(router.choices)], n)
        if router.mapped:
            choice = [f"go {c}" if isinstance(c, str) else c for c in choice]
        return choice[0] if len(choice) == 1 else choice

    route.__name__ = f"route{index}"
    return route


def build(lg: Any, spec: Spec) -> Any:
    types = {key: hint for key, hint in state_types(lg).items() if key in ("xs", "n", *spec.keys)}
    state = TypedDict("State", types)  # type: ignore[operator]
    builder = lg.StateGraph(state)
    for node in spec.nodes:
        kwargs: dict[str, Any] = {"defer": True} if node.defer else {}
        if node.reads is not None:
            kwargs["input_schema"] = TypedDict("Reads", {k: types[k] for k in node.reads})  # type: ignore[operator]
        fn = subgraph(lg, node, state) if node.kind == "sub" else make_node(lg, node)
        builder.add_node(node.name, fn, **kwargs)
    ends = {"START": lg.START, "END": lg.END}
    for start, end in spec.edges:
        starts = list(start) if isinstance(start, tuple) else ends.get(start, start)
        builder.add_edge(starts, ends.get(end, end))
    for index, router in enumerate(spec.routers):
        path_map = None
        if router.mapped:
            names = [lg.END, *(s[1] for steps in router.choices for s in steps if s[0] == "to")]
            path_map = {f"go {name}": name for name in names}
        source = ends.get(router.source, router.source)
        builder.add_conditional_edges(source, make_router(lg, router, index), path_map)
    return builder


def subgraph(lg: Any, node: Node, state: Any) -> Any:
    """Two nodes in a row, with the parent's state."""
    inner = lg.StateGraph(state)
    first, second = f"{node.name}1", f"{node.name}2"
    inner.add_node(first, make_node(lg, Node(first, "dict", ("xs", "n"))))
    inner.add_node(second, make_node(lg, Node(second, "dict", node.writes)))
    inner.add_edge(lg.START, first).add_edge(first, second)
    return lg.compile(inner)


def as_case(spec: Spec, name: str = "random") -> Case:
    # An open join is an error in strict raygraph, and choices may leave one open.
    strict = not (spec.joins and spec.chooses)
    return Case(name, lambda lg: build(lg, spec), spec.run_input(), strict=strict)


# ---- drawing --------------------------------------------------------------------------------------------------


def draw(random: Random, *, sends: bool = True, loops: bool = True, subgraphs: bool = True) -> Spec:
    """A graph in which every node can be reached, drawn from `random`."""
    count = random.randint(1, len(NAMES) - 1)
    names = list(NAMES[:count])
    if random.random() < 0.5:
        names.reverse()
    keys = tuple(key for key in SHARED_KEYS + SINGLE_KEYS if random.random() < 0.4)
    sends = sends and random.random() < 0.6
    # A deferred node that nothing follows, where no `Send` is about: there the engines agree on when it runs.
    deferred = names[-1] if count > 2 and not sends and random.random() < 0.4 else None
    sub = random.choice(names) if subgraphs and random.random() < 0.15 else None
    if sub == deferred:
        sub = None
    edges, routers = _draw_routes(random, names, sends=sends, loops=loops, deferred=deferred, sub=sub)
    singles = {key: random.choice(names) for key in SINGLE_KEYS if key in keys}
    counting = {router.source for router in routers}
    nodes = [
        _draw_node(
            random,
            name,
            names[i + 1 :],
            keys,
            singles,
            sends=sends,
            defer=name == deferred,
            sub=sub,
            counts=name in counting,
        )
        for i, name in enumerate(names)
    ]
    given: tuple[tuple[str, Any], ...] = (("xs", ("in",)),) if random.random() < 0.8 else ()
    if "v" in keys and random.random() < 0.5:
        given += (("v", "given"),)
    return Spec(tuple(nodes), tuple(edges), tuple(routers), keys, given)


def _draw_node(
    random: Random,
    name: str,
    later: list[str],
    keys: tuple[str, ...],
    singles: dict[str, str],
    *,
    sends: bool,
    defer: bool,
    sub: str | None,
    counts: bool,
) -> Node:
    writes = ["xs", "n"] + [k for k in keys if k in SHARED_KEYS and random.random() < 0.5]
    writes += [key for key, owner in singles.items() if owner == name]
    if random.random() < 0.5:
        writes.reverse()
    if name == sub:
        return Node(name, "sub", tuple(w for w in writes if w not in SINGLE_KEYS))
    # A router stops once enough tasks have counted, so its own node has to count.
    kind = random.choice(["dict", "dict", "dict", "command", "commands", "dict" if counts else "none"])
    goto = ()
    if kind.startswith("command") and later and random.random() < 0.7:
        goto = tuple(_draw_choice(random, later, sends=sends, sub=sub) for _ in range(random.randint(1, 2)))
    reads = None
    if random.random() < 0.2:
        reads = ("n", *(k for k in ("xs", *keys) if random.random() < 0.5))
    return Node(name, kind, tuple(writes), goto, reads, defer)


def _draw_routes(
    random: Random, names: list[str], *, sends: bool, loops: bool, deferred: str | None, sub: str | None
) -> tuple[list[tuple[Any, str]], list[Router]]:
    edges: list[tuple[Any, str]] = []
    routers: list[Router] = []

    def route(source: str, targets: list[str], must: str | None) -> None:
        choices = [_draw_choice(random, targets, sends=sends, sub=sub) for _ in range(random.randint(1, 3))]
        if must is not None:
            choices.append((("to", must),))
        routers.append(Router(source, tuple(choices), random.random() < 0.5, random.randint(3, 14)))

    for i, name in enumerate(names):
        before = names[:i]
        how = random.random()
        if not before or how < 0.15:
            edges.append(("START", name))
        elif len(before) > 1 and how < 0.4:
            edges.append((tuple(random.sample(before, random.randint(2, min(3, len(before))))), name))
        elif how < 0.55:
            route(random.choice([*before, "START"]), names[i:], name)
        else:
            edges += [(b, name) for b in random.sample(before, random.randint(1, min(2, len(before))))]
    if random.random() < 0.3:
        edges.append((random.choice(names), "END"))
    if loops and random.random() < 0.4:
        # Back edges only by routers, and those end; every node but a deferred one may be their source.
        source = random.choice([n for n in names if n != deferred])
        route(source, names, None)
    return edges, routers


def _draw_choice(random: Random, targets: list[str], *, sends: bool, sub: str | None) -> tuple[Step, ...]:
    steps: list[Step] = []
    for _ in range(random.randint(1, 3)):
        kind = random.random()
        target = random.choice(targets)
        if kind < 0.1:
            steps.append(("end",))
        elif sends and kind < 0.45 and target != sub and not any(step[0] == "send" for step in steps):
            steps.append(("send", target, random.choice([1, 2, 3, 11])))
        else:
            steps.append(("to", target))
    return tuple(steps)
