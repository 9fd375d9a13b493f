"""`python -m tools.pictures`."""

from __future__ import annotations

import sys

from tools.pictures import main

sys.exit(main(sys.argv[1:]))
