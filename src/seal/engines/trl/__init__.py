"""Training on one machine with TRL's GRPOTrainer: CPU, one GPU, or several through accelerate.

`train` is the entry. Importing this package is cheap; torch and TRL are loaded when a run starts.
"""

from seal.engines.trl.train import train

__all__ = ["train"]
