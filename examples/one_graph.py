"""One graph, and fear of the future: explorers change its edges in training; what would changes of edges cost?"""

import graphshift as gs

# Stands for your own graph, with masks for training and validation: gs.from_pyg(graph) or gs.from_networkx(graph).
data = gs.load("planted-structure", nodes=500)
(graph,), (val,) = data.train, data.val

for model in (gs.ERM("sage", epochs=100), gs.EERM("sage", explorer="gradient", epochs=100)):
    model.fit(graph, val)
    plain, edited = model.score(val), model.score_edited(val)
    print(f"{type(model).__name__:5s} validation {plain:.2f}, after the worst edits of edges {edited:.2f}")
    # The future, which you do not have yet: edges that agree with the labels less and less.
    scores = model.score(data.tests)
    print(f"      first test {scores['T1']:.2f}, last test {scores['T8']:.2f}")
