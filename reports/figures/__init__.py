"""Figures and tables of the papers out of stored runs, each in the module of its command.

A module's `figure(runs, ...)` makes a Figure (figure.py): tables, and panels or a drawing.

curves     score and TFLOPs against t_n and t_p of recorded searches (PECAN figure 4)
sweep      score and cost against a setting
nodes      nodes retrieved per question, with a log-normal fit (PECAN figure 3)
queries    TFLOPs per query where queries share an index (PECAN table A4)
tokens     tokens of documents, questions and answers (GARLIC table 6)
front      score against cost, and the methods that no other one beats
plot       panels as SVG, PDF or PNG in the style of paper.mplstyle
replay     what other stop rules would have answered; rule_table: their table
"""
