"""How well the rule ``target`` chooses between models, beside validation and the best that could have been chosen."""
