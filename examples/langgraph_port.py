"""A LangGraph program that runs on raygraph: a research agent that searches, writes, and checks its own work.

    python examples/langgraph_port.py "How do bees find their way?"

Nothing but the imports was changed. They were

    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, Send

The searches of a round run at the same time, each in a process of its own. It needs no model and no network: a
small library of sentences stands in for them, so that the answer is always the same.

    START ──▶ plan ──▶ search, search, … ──▶ write ──▶ review ──▶ END
               ▲        one Send per query               │
               └────────── Command(goto="plan") ─────────┘
"""

import operator
import re
import sys
from typing import Annotated, Literal, TypedDict

from raygraph import END, START, Command, Send, StateGraph

LIBRARY = [
    ("biology", "Bees see ultraviolet patterns on petals that guide them to the nectar of flowers."),
    ("biology", "A bee that found food dances: the angle of the waggle dance gives the direction to the sun."),
    ("biology", "The length of the waggle dance tells the other bees the distance to the flowers."),
    ("biology", "Flowers and bees depend on each other: pollen sticks to the hair of the bees."),
    ("physics", "Polarised light of the sky shows the position of the sun even behind clouds."),
    ("physics", "Ultraviolet light has a shorter wavelength than the light that humans see."),
    ("physics", "A flower has a weak negative charge, and the hair of a bee a positive one."),
    ("history", "Karl von Frisch received the Nobel prize in 1973 for decoding the dance of bees."),
    ("history", "Aristotle already noted that a bee visits one kind of flower on each trip."),
    ("gardens", "Gardens with clover, lavender and borage give bees nectar from spring to autumn."),
]
STOPWORDS = {"a", "and", "do", "does", "find", "for", "how", "in", "is", "of", "on", "or", "the", "to", "what", "why"}
ENOUGH_FACTS = 9
MAX_ROUNDS = 4


class Fact(TypedDict):
    """A sentence that a search found."""

    source: str
    text: str
    score: int


def keep_best(known: list[Fact], new: list[Fact]) -> list[Fact]:
    """Join two lists of facts without repeating a sentence, best first."""
    best: dict[str, Fact] = {}
    for fact in known + new:
        if fact["text"] not in best or fact["score"] > best[fact["text"]]["score"]:
            best[fact["text"]] = fact
    return sorted(best.values(), key=lambda fact: (-fact["score"], fact["text"]))


class Research(TypedDict, total=False):
    """The state of the agent."""

    question: str
    queries: list[str]
    asked: Annotated[list[str], operator.add]
    facts: Annotated[list[Fact], keep_best]
    log: Annotated[list[str], operator.add]
    rounds: Annotated[int, operator.add]
    draft: str
    answer: str


class Search(TypedDict):
    """The input of one search."""

    query: str
    round: int


def words(text: str) -> list[str]:
    """The words of a text that mean something, in order, in the singular."""
    found = re.findall(r"[a-z]+", text.lower())
    return [word.removesuffix("s") for word in found if word not in STOPWORDS]


def plan(state: Research) -> Research:
    """Ask for each word of the question, then for the words of the facts found so far."""
    if not state.get("facts"):
        candidates = words(state["question"])
    else:
        candidates = [word for fact in state["facts"] for word in words(fact["text"])]
    fresh = [word for word in dict.fromkeys(candidates) if word not in state.get("asked", [])]
    return {"queries": fresh[:3], "asked": fresh[:3], "rounds": 1}


def to_searches(state: Research) -> list[Send] | Literal["write"]:
    """One search per query; without a query go on with what there is."""
    if not state["queries"]:
        return "write"
    return [Send("search", {"query": query, "round": state["rounds"]}) for query in state["queries"]]


def search(task: Search) -> Research:
    """Look one word up in the library."""
    facts: list[Fact] = [
        {"source": source, "text": text, "score": words(text).count(task["query"]) * 10 - task["round"]}
        for source, text in LIBRARY
        if task["query"] in words(text)
    ]
    return {"facts": facts, "log": [f"round {task['round']}: {len(facts)} facts for {task['query']!r}"]}


def write(state: Research) -> Research:
    """Write the draft from the facts."""
    lines = [f"{fact['text']} [{fact['source']}]" for fact in state.get("facts", [])]
    return {"draft": "\n".join(lines) or "Nothing was found."}


def review(state: Research) -> Command[Literal["plan", "__end__"]]:
    """Go round again until there are enough facts, nothing is left to ask, or it took too long."""
    found = len(state.get("facts", []))
    if found < ENOUGH_FACTS and state["queries"] and state["rounds"] < MAX_ROUNDS:
        return Command(update={"log": [f"{found} facts are not enough"]}, goto="plan")
    return Command(update={"answer": f"{state['question']}\n\n{state['draft']}"}, goto=END)


def build() -> StateGraph:
    """The graph, not yet compiled."""
    graph = StateGraph(Research)
    graph.add_node("plan", plan)
    graph.add_node("search", search)
    graph.add_node("write", write)
    graph.add_node("review", review)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", to_searches, ["search", "write"])
    graph.add_edge("search", "write")
    graph.add_edge("write", "review")
    return graph


def main() -> None:
    """Answer the question on the command line."""
    question = " ".join(sys.argv[1:]) or "How do bees find their way?"
    final = build().compile().invoke({"question": question})
    print(final["answer"])
    print()
    print(*final["log"], sep="\n")


if __name__ == "__main__":
    main()
