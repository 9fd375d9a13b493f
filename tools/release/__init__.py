"""Builds what is released, into dist: the sdist and the wheels, checked; `python -m tools.release --help`."""
