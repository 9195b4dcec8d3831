"""Figures and tables of the papers that come out of stored runs: other stop rules, nodes, queries, tokens.

curves (replay)      score and TFLOPs against t_n and t_p, out of runs that recorded other stops   (PECAN figure 4)
sweep                score and cost against a setting that several runs have other values of
nodes                nodes retrieved per question, with a log-normal fit                           (PECAN figure 3)
queries              TFLOPs per query where queries share an index, and where it pays              (PECAN table A4)
tokens               tokens of documents, questions and answers                                    (GARLIC table 6)
position             score by where the supporting parts stand in the text                         (QRMeM table 3)
length               score and answer recall by the length of a question's documents       (LongRefiner figures 3, 4)
requests             requests a question, construction of an index apart, beside the score         (QRMeM table 6)
trials               score and requests against the maximum of trials                              (QRMeM figure 4)
front                score against cost, and the methods that no other one beats
plot                 panels as SVG, PDF or PNG in the style of paper.mplstyle, drawn by matplotlib
sheet                a page with a figure and its tables

Nothing here loads a model, a tokenizer or gold answers: scores of other answers and token counts are handed in.
"""
