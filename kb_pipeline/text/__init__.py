"""What two texts have in common, decided without a model.

Belongs here: folding, normal forms and hashes of entry texts, tokens, the ordered canonical sequence (ledger X0),
the specifics ledger (X1), and the rule that compares a pair of texts. Does not belong here: thresholds (policy),
similarity by vectors (stages), and anything that reads a file, a clock or a database.

Everything in this package is a pure function of the texts that it is given.
"""
