"""Matched experiments: the same tasks, starting weights and seeds in every cell of a design.

`read_design` reads a design, `run_design` trains and measures what is missing of it, `collect` puts what is there into
numbers and `write_page` into words. The unit of every statistic is a run: one seed in one block. The tasks of a run are
clustered in it, so they enter as the run's mean success and never as if they were independent observations.
"""

from seal.ablate.collect import collect
from seal.ablate.design import Design, read_design
from seal.ablate.page import write_page
from seal.ablate.run import run_design

__all__ = ["Design", "collect", "read_design", "run_design", "write_page"]
