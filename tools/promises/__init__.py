"""What users may rely on, as one document: `tests/data/promised.json`, in the terms of docs/compatibility.md.

python -m tools.promises            adds what is new; refuses to take away or change what is there
python -m tools.promises --break    takes away and changes, for a new major version
python -m tools.promises --check    only says whether the file is up to date, and nothing in it is broken
"""
