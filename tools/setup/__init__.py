"""Makes a checkout ready to run: `python3 -m tools.setup`, which `make` calls before anything else.

Standard library only. It must also start under a Python that is too old for the project (3.8 on), to say so.
"""
