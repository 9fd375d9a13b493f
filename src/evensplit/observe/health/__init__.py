"""How a query is, in one line, and what to do if it is not well. All of it is pure."""
