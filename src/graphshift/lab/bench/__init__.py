"""The benchmark suite behind ``graphshift bench``: what a step costs in time and memory, beside what it must cost.

A bar is a limit that a measurement has to keep. Bars are ratios of things timed in turns in one process, or peaks of
fresh processes, so that they mean the same on a fast machine and on a slow one. One file each in ``bars``; a new one
is added to ``PARTS`` in ``parts``.
"""
