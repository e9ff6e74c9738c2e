"""Studies: many fits, compared fairly. A :class:`Plan` says what to do, :func:`run_study` does it.

Every arm is tuned with the same number of trials on validation data, run with the same fresh seeds, and compared with
ERM in pairs. What is done is kept in a ledger, so a study survives being stopped or killed.
"""

from graphshift.studies.engines import Engine
from graphshift.studies.plan import NOT_ALLOWED, Arm, Plan, rule_names
from graphshift.studies.records import Record, Row, rows_of
from graphshift.studies.running import Study, run_study
from graphshift.studies.space import crossed_arms, paper_space, space_from_table
from graphshift.studies.statistics import Difference, compare, summarise
from graphshift.studies.summary import Summary
