"""The paper's Section 4 and Appendix D on discrete models that are small enough to enumerate.

``information`` has entropies and divergences, ``worlds`` the models and all their encoders, ``objectives`` the risks
and what minimises them, ``bounds`` the lemmas behind Theorem 3, ``graphs`` Eq. 6 on whole graphs, ``cases`` the models
that are run, ``invariance`` and ``extrapolation`` what holds of each statement of the paper.
"""
