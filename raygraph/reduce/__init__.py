"""From what nodes returned to the next state: routing, the one total order, the fold."""
