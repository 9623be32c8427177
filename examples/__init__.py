"""The examples, importable as `raygraph.examples` (the folder `raygraph/examples` is a link to this one)."""
