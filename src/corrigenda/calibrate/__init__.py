"""Fit a decision policy to labelled claims: `corrigenda calibrate`, or `fit` from Python.

    from corrigenda.calibrate import fit, read_scores

    fitted = fit(read_scores(["eval-out"]).scores, objective="f1", policy="bounded")
    Path("policy.json").write_text(fitted.file.to_json(), "utf-8")

`scores` reads the data, `search` looks through the grid, `fitting` fits and measures on what the fit has not seen,
`command` is the command line. A policy file is read by `corrigenda.policy_files`.
"""

from corrigenda.calibrate.command import main
from corrigenda.calibrate.fitting import Fitted, fit
from corrigenda.calibrate.scores import Labelled, LabelledScore, read_scores

__all__ = ["Fitted", "Labelled", "LabelledScore", "fit", "main", "read_scores"]
