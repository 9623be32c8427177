"""From a user's definition of a graph to the frozen tables that the engine runs."""
