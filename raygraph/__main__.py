"""`python -m raygraph`, the same as the command `raygraph`."""

from raygraph.cli.main import main

if __name__ == "__main__":
    main()
