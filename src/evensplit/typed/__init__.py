"""Typed columns: which types keys and values are decoded to, which of their fields are wanted, and which rows."""
