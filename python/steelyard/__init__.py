"""Steelyard: a store for model weights.

`steelyard.model_weight` says how a framework lays weights out, `steelyard.reshard` turns two layouts into copies, and
`steelyard.dtypes` knows how dtypes are spelt. `python -m steelyard` is the program.
"""

from steelyard._ext import version as __version__

__all__ = ["__version__"]
