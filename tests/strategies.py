"""Hypothesis strategies that several tests share."""

from random import Random

from hypothesis import strategies as st


def randoms() -> st.SearchStrategy[Random]:
    """Sources of randomness for drawing graphs.

    Plain seeds give graphs of every size; Hypothesis' own `randoms()` prefers extreme choices, and shrinks.
    """
    return st.one_of(st.integers(0, 2**64 - 1).map(Random), st.randoms(use_true_random=False))
