"""Fit the constants of the `chat` verifier to labelled pairs: `corrigenda calibrate-nli`, or `refit` from Python.

`pairs` reads the data, `fitting` asks the model and measures, `command` is the command line.
"""

from corrigenda.calibrate_nli.command import main
from corrigenda.calibrate_nli.fitting import Refit, Result, refit
from corrigenda.calibrate_nli.pairs import Labelled, read_pairs

__all__ = ["Labelled", "Refit", "Result", "main", "read_pairs", "refit"]
