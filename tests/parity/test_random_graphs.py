"""Random graphs run alike on LangGraph and on raygraph: final state, `values` chunks, updates of each super-step."""

from hypothesis import event, given, note, settings

from tests.parity.graphs import Spec, as_case, draw
from tests.parity.harness import LANGGRAPH, Observed, observe, raygraph
from tests.strategies import randoms


def describe(spec: Spec, seen: Observed) -> None:
    """What Hypothesis shows with `--hypothesis-show-statistics`, and with a failing example."""
    note(f"{spec}")
    note(f"langgraph: {seen.failure or seen.final}")
    tasks = sum(map(len, seen.updates))
    event(f"nodes: {len(spec.nodes)}")
    event(f"tasks: {'40 and more' if tasks >= 40 else f'{tasks // 10 * 10} to {tasks // 10 * 10 + 9}'}")
    event(f"ended: {seen.failure.kind if seen.failure else 'returned'}")
    for feature in ("sends", "joins", "chooses"):
        if getattr(spec, feature):
            event(feature)
    for kind in {node.kind for node in spec.nodes}:
        event(f"node kind: {kind}")
    if any(node.defer for node in spec.nodes):
        event("a deferred node")


@settings(max_examples=400)
@given(randoms())
def test_random_graphs_agree(random):
    spec = draw(random)
    case = as_case(spec)
    reference = observe(case, LANGGRAPH)
    describe(spec, reference)
    ours = observe(case, raygraph("inline"))
    assert ours.failure == reference.failure, ours.failure and ours.failure.text
    assert ours.values == reference.values
    if reference.failure is None:
        assert ours.stream == reference.stream
