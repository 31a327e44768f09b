"""`seal report`: one self-contained page for a training run, an evaluation or a design.

`read` finds out what a path holds, `sections` turns it into figures and tables, `page` puts them and the trajectories
into one file that asks no server for anything.
"""

from seal.report.page import write_report

__all__ = ["write_report"]
