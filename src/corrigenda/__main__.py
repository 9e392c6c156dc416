"""`python -m corrigenda` is the command line."""

import sys

from corrigenda.cli import main

sys.exit(main())
