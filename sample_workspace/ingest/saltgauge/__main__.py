"""Run the command line with `python -m saltgauge`."""

import sys

from saltgauge.cli import main

sys.exit(main())
