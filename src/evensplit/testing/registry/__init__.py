"""A real schema registry on this machine."""
