"""`python -m evensplit.cli` is the command `evensplit`."""

from evensplit.cli import main

if __name__ == "__main__":
    main()
