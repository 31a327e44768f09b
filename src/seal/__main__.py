"""`python -m seal`."""

import sys

from seal.cli import main

sys.exit(main())
