"""The paper's tables and figures, rerun: experiments, the settings they are run in, and the numbers published.

An :class:`Item` is a table or figure; it shows the studies of some :class:`Experiment`, each in up to four
:data:`SETTINGS`. Studies are kept in a folder, so items share them and none is run twice.
"""

from graphshift.lab.paper.experiments import EXPERIMENTS, Experiment
from graphshift.lab.paper.items import ITEMS, Item, find
from graphshift.lab.paper.published import PUBLISHED, Published
from graphshift.lab.paper.settings import SETTINGS, Size, plan_of
