"""The speed suite behind ``graphshift bench``: time and memory of a step, compared with the least that it needs.

A bar is a limit for a measurement. Bars are ratios of things timed in turns in one process, or peaks of
fresh processes, so that they mean the same on a fast machine and on a slow one. One file each in ``bars``; a new one
is added to ``PARTS`` in ``parts``.
"""
