"""`python -m passwright`: the command `passes`."""

from .app.cli import main

if __name__ == "__main__":
    main()
