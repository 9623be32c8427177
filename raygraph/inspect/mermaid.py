"""Mermaid text of a drawn graph.

langchain-core has a writer too, with the same shapes and colours. It is not used because what it makes of some
graphs does not draw: names with brackets or quotes are not escaped, a node called `end` is a keyword, the same
subgraph name in two places raises, and an edge between two subgraphs whose nodes have the same name gets a box
of its own.
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from raygraph.build.specs import GraphSpec
from raygraph.state.constants import END, START

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Edge, Node

_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "_-")
_ESCAPED: Final = {character: f"#{ord(character)};" for character in '#"<>&`|[](){}'}
#: Words that Mermaid's grammar takes for its own where a node's id is expected.
_KEYWORDS: Final = frozenset(
    {
        "class", "classdef", "click", "default", "direction", "end", "flowchart", "graph", "interpolate", "linkstyle",
        "style", "subgraph",
    }
)  # fmt: skip
_STYLES: Final = {
    "default": "fill:#f2f0ff,line-height:1.2",
    "first": "fill-opacity:0",
    "last": "fill:#bfb6fc",
}


@dataclass(frozen=True)
class Look:
    """How the text is written.

    Attributes:
        with_styles: Write shapes, labels and colours, not only the edges.
        curve: Mermaid's name of a curve.
        colors: CSS by class: default, first, last.
        words: Break edge labels after so many words.
        frontmatter: Mermaid's frontmatter, added to.
    """

    with_styles: bool = True
    curve: str = "linear"
    colors: Mapping[str, str] = field(default_factory=lambda: _STYLES)
    words: int = 9
    frontmatter: Mapping[str, Any] = field(default_factory=dict)


def write_mermaid(nodes: Mapping[str, Node], edges: Sequence[Edge], look: Look) -> str:
    """The Mermaid text of a graph; nodes whose id is `outer:inner` stand in a box named `outer`.

    Args:
        nodes: By id.
        edges: Between them.
        look: How it is written.
    """
    lines = [*(_frontmatter(look) if look.with_styles else ()), "graph TD;"]
    lines += _Writer(nodes, edges, look).block("")
    if look.with_styles:
        lines += [f"\tclassDef {name} {style}" for name, style in look.colors.items()]
    return "\n".join(lines) + "\n"


def _frontmatter(look: Look) -> list[str]:
    """Mermaid reads YAML there, and JSON is YAML."""
    config = look.frontmatter.get("config", {})
    flowchart = {**config.get("flowchart", {}), "curve": look.curve}
    content = {**look.frontmatter, "config": {**config, "flowchart": flowchart}}
    return ["---", *(f"{key}: {json.dumps(value)}" for key, value in content.items()), "---"]


class _Writer:
    def __init__(self, nodes: Mapping[str, Node], edges: Sequence[Edge], look: Look) -> None:
        self.nodes = nodes
        self.edges = edges
        self.look = look
        self.boxes = dict.fromkeys(box for key in nodes for box in _boxes(key))

    def block(self, box: str) -> list[str]:
        """The lines of a box (of the whole graph for ""): its nodes, the edges within it, the boxes in it."""
        edges = [edge for edge in self.edges if _common_box(edge.source, edge.target) == box]
        drawn = {key for edge in edges for key in (edge.source, edge.target)}
        lines: list[str] = []
        for key, node in self.nodes.items():
            # An edge makes its nodes, so that without styles only the others have to be written.
            if _box(key) == box and (self.look.with_styles or key not in drawn):
                lines.append("\t" + self._node(key, node))
        lines += [f"\t{self._edge(edge)}" for edge in edges]
        for inner in self.boxes:
            if _box(inner) == box:
                title = escape(inner.rsplit(":", 1)[-1])
                lines += [f'\tsubgraph {safe_id(inner)}["{title}"]', *self.block(inner), "\tend"]
        return lines

    def _node(self, key: str, node: Node) -> str:
        label = escape(node.name.rsplit(":", 1)[-1])
        notes = [escape(note) for note in note_lines(node.metadata)]
        if notes:
            label += f"<br/><small><em>{'<br/>'.join(notes)}</em></small>"
        if key == START:
            return f'{safe_id(key)}(["{label}"]):::first'
        if key == END:
            return f'{safe_id(key)}(["{label}"]):::last'
        if isinstance(node.data, GraphSpec):
            return f'{safe_id(key)}[["{label}"]]'
        return f'{safe_id(key)}("{label}")'

    def _edge(self, edge: Edge) -> str:
        arrow = "-.->" if edge.conditional else "-->"
        if edge.data is not None:
            words = escape(str(edge.data)).split()
            size = max(self.look.words, 1)
            rows = [" ".join(words[first : first + size]) for first in range(0, len(words), size)]
            arrow += f'|"{"<br/>".join(rows)}"|'
        return f"{safe_id(edge.source)} {arrow} {safe_id(edge.target)};"


def note_lines(metadata: Mapping[str, Any] | None) -> list[str]:
    """What stands below a node's name: the metadata that can be said in a line (langchain-core's choice)."""
    lines = []
    for key, value in (metadata or {}).items():
        if isinstance(value, (list, tuple, set)) and all(isinstance(item, (str, int, float)) for item in value):
            items = [str(item) for item in value]
            value = ", ".join(sorted(items) if isinstance(value, set) else items)
        if isinstance(value, (str, int, float)):
            lines.append(f"{key} = {value}")
    return lines


def escape(text: str) -> str:
    """Text as a quoted Mermaid label, in which nothing has a meaning of its own."""
    return "".join(_ESCAPED.get(character, character) for character in " ".join(text.split()))


def safe_id(name: str) -> str:
    """A Mermaid id for a node: other characters than letters, digits, `_` and `-` as `\\` and their code point."""
    if name.lower() in _KEYWORDS:
        return f"\\{ord(name[0]):x}{name[1:]}"
    return "".join(c if c in _PLAIN else f"\\{ord(c):x}" for c in name)


def _box(key: str) -> str:
    return key.rpartition(":")[0]


def _boxes(key: str) -> list[str]:
    parts = key.split(":")
    return [":".join(parts[:count]) for count in range(1, len(parts))]


def _common_box(source: str, target: str) -> str:
    shared = [box for box in _boxes(source) if box in _boxes(target)]
    return shared[-1] if shared else ""
