"""Ebbtide's counters where a program's other numbers go (docs/integrations.md).

Each file is imported only when asked for, and none of what they feed is required.

    scalars(), Meter    a flat dict of floats, for any logger                             meter.py
    transformers        EbbtideCallback, for transformers.Trainer
    lightning           EbbtideCallback, for Lightning's Trainer
    prometheus          serve(): a text endpoint
"""

from .meter import Meter, scalars

__all__ = ["Meter", "scalars"]
