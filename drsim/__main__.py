"""`python -m drsim`."""

from drsim.cli import main

if __name__ == "__main__":
    main()
