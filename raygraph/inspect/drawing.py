"""`get_graph`: the compiled tables as a graph to draw."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

from langchain_core.runnables.graph import Graph as BaseGraph
from langchain_core.runnables.graph import Node

from raygraph.build.specs import GraphSpec, NodeSpec
from raygraph.inspect.edges import Edge, edges_of
from raygraph.inspect.mermaid import Look, note_lines, write_mermaid
from raygraph.inspect.pictures import CONFIG, png_of, svg_of, text_of
from raygraph.inspect.placing import placement
from raygraph.state.constants import END, START


@dataclass
class Graph(BaseGraph):
    """A graph to draw: langchain-core's, drawn on this machine.

    `nodes` (by id) and `edges` are langchain-core's records; `to_json()` is its method.
    """

    def draw_mermaid(
        self,
        *,
        with_styles: bool = True,
        curve_style: Any = "linear",
        node_colors: Any = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: Mapping[str, Any] | None = None,
    ) -> str:
        """The graph as Mermaid text. Needs no further library.

        Args:
            with_styles: Write shapes, labels and colours, not only the edges.
            curve_style: A `CurveStyle` of langchain-core, or Mermaid's name of a curve.
            node_colors: A `NodeStyles` of langchain-core, or CSS by class (default, first, last).
            wrap_label_n_words: Break edge labels after so many words.
            frontmatter_config: Mermaid's frontmatter, such as `{"config": {"theme": "neutral"}}`.
        """
        colors = vars(node_colors) if is_dataclass(node_colors) else node_colors
        look = Look(
            with_styles=with_styles,
            curve=getattr(curve_style, "value", curve_style),
            words=wrap_label_n_words,
            frontmatter=frontmatter_config or {},
        )
        if colors:
            look = Look(look.with_styles, look.curve, {**look.colors, **colors}, look.words, look.frontmatter)
        return write_mermaid(self.nodes, self.edges, look)

    def draw_svg(self, output_file_path: str | None = None, *, padding: int = 10, **style: Any) -> str:
        """The graph as an SVG picture.

        Args:
            output_file_path: Write it there too.
            padding: Pixels around the drawing.
            **style: `curve_style`, `node_colors`, `wrap_label_n_words`, `frontmatter_config` of `draw_mermaid`.

        Raises:
            NotSupportedError: The extra `draw` is not installed.
        """
        given: dict[str, Any] = dict(style.pop("frontmatter_config", None) or {})
        config: dict[str, Any] = {**CONFIG, **given.get("config", {})}
        config["flowchart"] = {"diagramPadding": padding, **CONFIG["flowchart"], **config["flowchart"]}
        svg = svg_of(self.draw_mermaid(frontmatter_config={**given, "config": config}, **style))
        if output_file_path is not None:
            Path(output_file_path).write_text(svg, encoding="utf-8")
        return svg

    def draw_mermaid_png(
        self,
        output_file_path: str | None = None,
        *,
        background_color: str | None = "white",
        padding: int = 10,
        curve_style: Any = "linear",
        node_colors: Any = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: Mapping[str, Any] | None = None,
        draw_method: Any = None,
        max_retries: int = 1,
        retry_delay: float = 1.0,
        base_url: str | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> bytes:
        """The graph as a PNG picture, drawn by Mermaid in this process; nothing is sent anywhere.

        Args:
            output_file_path: Write it there too.
            background_color: A CSS colour, or "transparent".
            padding: Pixels around the drawing.
            curve_style: See `draw_mermaid`.
            node_colors: See `draw_mermaid`.
            wrap_label_n_words: See `draw_mermaid`.
            frontmatter_config: See `draw_mermaid`.
            draw_method: LangGraph's choice of a server or a browser; neither is used.
            max_retries: Accepted like the three below, and of no use without a server.
            retry_delay: See `max_retries`.
            base_url: See `max_retries`.
            proxies: See `max_retries`.

        Raises:
            NotSupportedError: The extra `draw` is not installed.
        """
        svg = self.draw_svg(
            padding=padding,
            curve_style=curve_style,
            node_colors=node_colors,
            wrap_label_n_words=wrap_label_n_words,
            frontmatter_config=frontmatter_config,
        )
        png = png_of(svg, background_color)
        if output_file_path is not None:
            Path(output_file_path).write_bytes(png)
        return png

    def draw_png(  # type: ignore[override]  # langchain-core has one signature per kind of result
        self, output_file_path: str | None = None, fontname: str | None = None, labels: Any = None
    ) -> bytes | None:
        """The graph as a PNG picture, with other labels if wanted.

        Args:
            output_file_path: Write it there, and return None.
            fontname: Accepted for LangGraph's sake; the font is the bundled one, which measures the labels too.
            labels: `{"nodes": {id: label}, "edges": {label: label}}`.

        Raises:
            NotSupportedError: The extra `draw` is not installed.
        """
        names, words = ((labels or {}).get(part, {}) for part in ("nodes", "edges"))
        renamed = Graph(
            {key: node.copy(name=names.get(key)) for key, node in self.nodes.items()},
            [edge._replace(data=words.get(edge.data, edge.data)) for edge in self.edges],
        )
        png = renamed.draw_mermaid_png(output_file_path)
        return png if output_file_path is None else None

    def draw_ascii(self, *, unicode: bool = True) -> str:
        """The graph drawn with characters; the list of its edges where they would cross too often to be followed.

        Args:
            unicode: Use box-drawing characters, not only ASCII.

        Raises:
            NotSupportedError: The extra `draw` is not installed.
        """
        notes = {key: f" ({', '.join(lines)})" for key, n in self.nodes.items() if (lines := note_lines(n.metadata))}
        return text_of(self.nodes, self.edges, notes, unicode)

    def print_ascii(self) -> None:
        """Print the graph, with box-drawing characters if standard output can show them."""
        print(self.draw_ascii(unicode="utf" in (getattr(sys.stdout, "encoding", None) or "").lower()))


def get_graph(spec: GraphSpec, *, xray: int | bool = False) -> Graph:
    """A compiled graph as a graph to draw.

    Args:
        spec: The compiled graph.
        xray: Draw the inside of subgraphs: True for all, a number for so many levels.
    """
    graph = Graph()
    edges = edges_of(spec)
    for node in spec.nodes.values():
        data: Any = node.subgraph if node.subgraph is not None else node.program.fn
        graph.add_node(data, node.name, metadata=_metadata(node) or None)
    if any(edge.target == END for edge in edges):
        graph.add_node(None, END)
    for (source, target), ways in _merged(edges).items():
        sure = any(edge.sure for edge in ways)
        label = None if sure else _label(ways)
        graph.add_edge(graph.nodes[source], graph.nodes[target], label, conditional=not sure)
    if xray:
        inner = xray if isinstance(xray, bool) or xray <= 0 else xray - 1
        for node in spec.nodes.values():
            if node.subgraph is not None:
                _expand(graph, node.name, get_graph(node.subgraph, xray=inner))
    return graph


def _metadata(node: NodeSpec) -> dict[str, Any]:
    deferred = {"defer": True} if node.defer else {}
    return {**node.metadata, **deferred, **placement(node)}


def _merged(edges: tuple[Edge, ...]) -> dict[tuple[str, str], list[Edge]]:
    """One line is drawn from a node to another, whatever the number of ways."""
    merged: dict[tuple[str, str], list[Edge]] = {}
    for edge in edges:
        merged.setdefault((edge.source, edge.target), []).append(edge)
    return merged


def _label(ways: list[Edge]) -> str | None:
    said = [edge.label for edge in ways if edge.label is not None]
    return ", ".join(dict.fromkeys(said)) or None


def _expand(graph: Graph, name: str, inside: Graph) -> None:
    """Put a subgraph's own graph in the place of its node.

    Its START and END are left out where one node takes their part, as in LangGraph.
    """
    for end in (START, END):
        if end not in inside.nodes:
            inside.add_node(None, end)
    inside.trim_first_node()
    inside.trim_last_node()
    first = inside.first_node() or inside.nodes[START]
    last = inside.last_node() or inside.nodes[END]
    del graph.nodes[name]
    graph.extend(inside, prefix=name)
    entry, leave = f"{name}:{first.id}", f"{name}:{last.id}"
    graph.edges = [
        edge.copy(
            source=leave if edge.source == name else None,
            target=entry if edge.target == name else None,
        )
        for edge in graph.edges
    ]


def notebook_bundle(spec: GraphSpec) -> dict[str, str]:
    """What a notebook shows for a compiled graph, by MIME type: a picture, or the Mermaid text.

    Args:
        spec: The compiled graph.
    """
    graph = get_graph(spec, xray=True)
    nodes = [name for name in spec.nodes if name != START]
    count = f"{len(nodes)} node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    bundle = {"text/plain": f"Graph {spec.name!r} of {count}: {', '.join(nodes)}"}
    try:
        bundle["image/svg+xml"] = graph.draw_svg()
    except Exception:
        # Showing a value must never fail. JupyterLab draws Mermaid text itself.
        bundle["text/vnd.mermaid"] = graph.draw_mermaid()
    return bundle


__all__ = ["Graph", "Node", "get_graph", "notebook_bundle"]
