"""The command `raygraph`: one module per command, and what they share.

Nothing here imports the engine, Ray or rich before a command needs it, so that `--help` answers at once.
"""
