"""A pre-check beside the verifier for what small models miss: numbers, units, dates, direction and negation.

`find_quantities` reads the quantities of a text; `compare` says whether a hypothesis agrees or conflicts with a
premise, and only where that is safe. Pure, deterministic and linear in the length of its input.
"""

from corrigenda.quantities.compare import compare
from corrigenda.quantities.find import find_quantities
from corrigenda.quantities.model import NumericVerdict, Quantity, QuantityKind

__all__ = ["NumericVerdict", "Quantity", "QuantityKind", "compare", "find_quantities"]
