"""Drawing: labels, subgraphs, odd names, pictures made on this machine, and what happens without the extra."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from langchain_core.runnables.graph import CurveStyle, MermaidDrawMethod, NodeStyles
from langchain_core.runnables.graph import Graph as BaseGraph
from typing_extensions import TypedDict

from raygraph import END, START, StateGraph
from raygraph.errors import NotSupportedError
from raygraph.inspect.drawing import get_graph, notebook_bundle
from raygraph.inspect.mermaid import safe_id
from raygraph.inspect.pictures import svg_of
from tests.unit.engine import says


class State(TypedDict, total=False):
    xs: list[str]


def chain(*names: str, **options: Any) -> StateGraph:
    built = StateGraph(State)
    before = START
    for name in names:
        built.add_node(name, says(name), **options)
        built.add_edge(before, name)
        before = name
    return built


def spec_of(built: StateGraph) -> Any:
    return built.compile(executor="inline").spec


def nested() -> StateGraph:
    """A subgraph of a subgraph, and one subgraph used twice in a row."""
    inner = chain("x", "y").compile(executor="inline")
    middle = chain("m")
    middle.add_node("inner", inner).add_edge("m", "inner")
    outer = chain("a")
    outer.add_node("one", middle.compile(executor="inline")).add_node("two", middle.compile(executor="inline"))
    return outer.add_edge("a", "one").add_edge("one", "two")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("A drawing went to the network.")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mermaidx", None)
    monkeypatch.setitem(sys.modules, "termaid", None)
    svg_of.cache_clear()


def test_the_mermaid_text_of_a_small_graph() -> None:
    built = chain("a", "b")
    built.add_conditional_edges("b", lambda state: END, {"again": "a", "enough": END})
    assert get_graph(spec_of(built)).draw_mermaid() == (
        '---\nconfig: {"flowchart": {"curve": "linear"}}\n---\n'
        "graph TD;\n"
        '\t__start__(["__start__"]):::first\n'
        '\ta("a")\n'
        '\tb("b")\n'
        '\t__end__(["__end__"]):::last\n'
        "\t__start__ --> a;\n"
        "\ta --> b;\n"
        '\tb -.->|"again"| a;\n'
        '\tb -.->|"enough"| __end__;\n'
        "\tclassDef default fill:#f2f0ff,line-height:1.2\n"
        "\tclassDef first fill-opacity:0\n"
        "\tclassDef last fill:#bfb6fc\n"
    )


def test_style_arguments_are_langgraphs() -> None:
    graph = get_graph(spec_of(chain("a")))
    assert isinstance(graph, BaseGraph)
    text = graph.draw_mermaid(
        curve_style=CurveStyle.BASIS,
        node_colors=NodeStyles(first="fill:#fdd"),
        frontmatter_config={"config": {"theme": "neutral"}},
    )
    assert '{"theme": "neutral", "flowchart": {"curve": "basis"}}' in text
    assert "classDef first fill:#fdd" in text
    assert graph.draw_mermaid(with_styles=False) == "graph TD;\n\t__start__ --> a;\n\ta --> __end__;\n"


def test_executor_and_resources_are_in_the_label_only_where_they_were_said() -> None:
    built = chain("plain")
    built.add_node(
        "big",
        says("big"),
        executor="threads",
        num_cpus=0.5,
        num_gpus=1,
        memory=3 * 2**30,
        resources={"tpu": 2},
        runtime_env={"env_vars": {"TOKEN": "secret"}},
        max_concurrency=4,
        defer=True,
        metadata={"team": "search"},
    )
    graph = get_graph(spec_of(built.add_edge("plain", "big")))
    assert graph.nodes["plain"].metadata is None
    assert graph.nodes["big"].metadata == {
        "team": "search",
        "defer": True,
        "executor": "threads",
        "num_cpus": "0.5",
        "num_gpus": "1",
        "memory": "3 GiB",
        "resources": "tpu: 2",
        "runtime_env": "env_vars",
        "max_concurrency": "4",
    }
    text = graph.draw_mermaid()
    assert 'plain("plain")' in text
    assert "big<br/><small><em>team = search<br/>defer = True<br/>executor = threads<br/>num_cpus = 0.5<br/>" in text
    assert "secret" not in text


def test_xray_opens_as_many_levels_as_asked() -> None:
    spec = spec_of(nested())
    assert 'one[["one"]]' in get_graph(spec).draw_mermaid()
    assert set(get_graph(spec).nodes) == {START, "a", "one", "two", END}
    once = get_graph(spec, xray=1)
    assert set(once.nodes) == {START, "a", "one:m", "one:inner", "two:m", "two:inner", END}
    fully = get_graph(spec, xray=True)
    assert "one:inner:x" in fully.nodes
    assert ("one:inner:y", "two:m") in {(edge.source, edge.target) for edge in fully.edges}
    assert len(get_graph(spec, xray=2).nodes) == len(fully.nodes)


def test_boxes_of_one_name_stay_apart() -> None:
    # LangGraph: ValueError, "Found duplicate subgraph 'inner'".
    lines = get_graph(spec_of(nested()), xray=True).draw_mermaid().splitlines()
    boxes = [line.strip() for line in lines if line.strip().startswith("subgraph")]
    assert boxes == [
        'subgraph one["one"]',
        'subgraph one\\3ainner["inner"]',
        'subgraph two["two"]',
        'subgraph two\\3ainner["inner"]',
    ]
    assert lines.count("\tend") == 4


def test_a_subgraph_without_an_exit_is_opened_too() -> None:
    # LangGraph leaves it closed.
    inner = chain("x", "y").add_edge("y", "x")
    outer = chain("a")
    outer.add_node("s", inner.compile(executor="inline")).add_edge("a", "s")
    graph = get_graph(spec_of(outer), xray=True)
    ends = {(edge.source, edge.target) for edge in graph.edges}
    assert ("a", "s:__start__") in ends
    assert ("s:__end__", END) in ends


def test_json() -> None:
    drawn = get_graph(spec_of(chain("a"))).to_json()
    assert [node["id"] for node in drawn["nodes"]] == [START, "a", END]
    assert drawn["edges"] == [{"source": START, "target": "a"}, {"source": "a", "target": END}]


def test_ids_are_safe_and_distinct() -> None:
    names = ["a b", "a_b", "a-b", "a:b", "end", "End", "graph", "ä", "(x)"]
    ids = [safe_id(name) for name in names]
    assert len(set(ids)) == len(names)
    assert safe_id("end") == "\\65nd"
    assert safe_id("a b") == "a\\20b"


@pytest.mark.usefixtures("no_network")
def test_a_png_is_drawn_here(tmp_path: Path) -> None:
    pytest.importorskip("mermaidx")
    graph = get_graph(spec_of(chain("a")))
    file = tmp_path / "graph.png"
    # What a LangGraph program passes to reach a server is taken, and no server is.
    png = graph.draw_mermaid_png(
        output_file_path=str(file), draw_method=MermaidDrawMethod.API, base_url="http://localhost:9", max_retries=3
    )
    assert png == file.read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert graph.draw_png(str(tmp_path / "labels.png"), labels={"nodes": {"a": "other"}, "edges": {}}) is None
    assert (tmp_path / "labels.png").read_bytes() != png


@pytest.mark.usefixtures("no_network")
def test_names_that_mean_something_to_mermaid_are_only_names(tmp_path: Path) -> None:
    pytest.importorskip("mermaidx")
    names = ['say "hi" (now) [x] {y} <z> # & `*', "end", "two words", "Größe", "class"]
    built = chain(*names)
    built.add_conditional_edges(names[-1], lambda state: END, {'with "quotes" | (x)': names[0], "stop": END})
    file = tmp_path / "graph.svg"
    svg = get_graph(spec_of(built)).draw_svg(str(file))
    assert file.read_text(encoding="utf-8") == svg
    shown = [" ".join(text.split()) for text in ElementTree.fromstring(svg).itertext()]
    for name in (*names, 'with "quotes" | (x)', START, END):
        assert name in shown


@pytest.mark.usefixtures("no_network")
def test_nested_boxes_are_drawn() -> None:
    pytest.importorskip("mermaidx")
    svg = get_graph(spec_of(nested()), xray=True).draw_svg()
    shown = [text.strip() for text in ElementTree.fromstring(svg).itertext()]
    assert shown.count("inner") == 2
    assert shown.count("x") == 2


def test_characters() -> None:
    pytest.importorskip("termaid")
    built = chain("a", 'b "quoted"', num_cpus=2)
    built.add_node("island", says("island"))
    built.add_conditional_edges('b "quoted"', lambda state: END, {"again": "a", "enough": END})
    graph = get_graph(spec_of(built))
    drawn = graph.draw_ascii()
    for word in (START, END, "num_cpus", "again", "enough", "island", "b 'quoted'"):
        assert word in drawn
    assert "┌" in drawn
    assert graph.draw_ascii(unicode=False).isascii()


def test_a_graph_too_tangled_for_characters_is_listed() -> None:
    pytest.importorskip("termaid")
    names = [f"n{number}" for number in range(20)]
    built = chain(*names)
    for number in range(18):
        built.add_edge(names[number // 2], names[number + 2])
    built.add_conditional_edges("n19", lambda state: END, {"again": "n0", "stop": END})
    drawn = get_graph(spec_of(built)).draw_ascii()
    assert "n0\n  --> n1\n  --> n2\n  --> n3\n" in drawn
    assert "n19\n  -.-> n0  (again)\n  -.-> __end__  (stop)\n" in drawn


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("termaid")
    get_graph(spec_of(chain("a"))).print_ascii()
    assert START in capsys.readouterr().out


@pytest.mark.usefixtures("without_extra")
def test_without_the_extra_one_error_names_it() -> None:
    graph = get_graph(spec_of(chain("a")))
    for draw in (graph.draw_mermaid_png, graph.draw_svg, graph.draw_png, graph.draw_ascii):
        with pytest.raises(NotSupportedError, match=r"pip install 'raygraph\[draw\]'"):
            draw()
    assert "a" in graph.draw_mermaid()


@pytest.mark.usefixtures("without_extra")
def test_a_notebook_without_the_extra_shows_mermaid_text() -> None:
    bundle = notebook_bundle(spec_of(chain("a")))
    assert set(bundle) == {"text/plain", "text/vnd.mermaid"}
    assert bundle["text/plain"] == "Graph 'LangGraph' of 1 node: a"


def test_a_notebook_with_the_extra_shows_a_picture() -> None:
    pytest.importorskip("mermaidx")
    one, two = notebook_bundle(spec_of(chain("a"))), notebook_bundle(spec_of(chain("b", "c")))
    assert set(one) == {"text/plain", "image/svg+xml"}
    ids = {ElementTree.fromstring(bundle["image/svg+xml"]).get("id") for bundle in (one, two)}
    assert len(ids) == 2
