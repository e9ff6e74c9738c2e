"""Datasets own their split, task, metric and defaults. One file each; :mod:`graphshift.datasets.base` finds them."""

from graphshift.datasets.base import DATASETS, Entry, load
