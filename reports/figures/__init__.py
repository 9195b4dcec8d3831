"""Figures and tables of the papers that come out of stored runs, each in the module of its command.

A module's `figure(runs, ...)` makes a Figure (figure.py): a table, tables for people, and panels or
a drawing.

curves               score and TFLOPs against t_n and t_p, out of runs that recorded other stops   (PECAN figure 4)
sweep                score and cost against a setting that several runs have other values of
nodes                nodes retrieved per question, with a log-normal fit                           (PECAN figure 3)
queries              TFLOPs per query where queries share an index, and where it pays              (PECAN table A4)
tokens               tokens of documents, questions and answers                                    (GARLIC table 6)
front                score against cost, and the methods that no other one beats
figure               a figure in every format that a command can write
plot                 panels as SVG, PDF or PNG in the style of paper.mplstyle, drawn by matplotlib
replay, rule_table   what other stop rules would have answered, and their table; for curves and `study trials`

Nothing here loads a model.
"""
