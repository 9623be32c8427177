"""The state of a graph: channels, reducers, snapshots, and the records that describe what happens to it."""
