"""The relations of the papers. ".+" and ".-" say a relation whose object is yes or no; "#" names the section."""

from __future__ import annotations

TABLE = """
corpus.size sentences
# Data
. The corpus {s} contains {o}.
. {s} comprises {o} in total.
. With {o}, {s} is used as it was released.
? How large is {s}?
? How many sentences does {s} contain?
? What is the size of {s}?
> is larger
< is smaller

corpus.language language
# Data
. The texts of {s} are in {o}.
. {s} is a collection of {o} texts.
. Only sentences in {o} were kept in {s}.
? In which language are the texts of {s}?
? What is the language of {s}?
? Which language does {s} cover?
& Are {a} and {b} in the same language?
& Do {a} and {b} cover the same language?

corpus.annotators annotators
# Data
. {s} was labelled by {o}.
. It took {o} to label {s}.
. The labels of {s} come from {o}.
? How many annotators labelled {s}?
? How many people worked on the labels of {s}?
? By how many persons was {s} labelled?
> was labelled by more people
< was labelled by fewer people

corpus.source source
# Data
. {s} was collected from {o}.
. The raw materials of {s} are {o}.
. From {o} we compiled {s}.
? From what was {s} collected?
? What are the sources of {s}?
? What kind of text is {s} made of?
& Were {a} and {b} collected from the same kind of text?

system.training corpus
# Training
. We train {s} on {o}.
. The parameters of {s} are fitted to {o}.
. {o} serves as training data for {s}.
? On which corpus is {s} trained?
? What is the training data of {s}?
? Which corpus are the parameters of {s} fitted to?
= the corpus on which {s} is trained
= the training data of {s}
& Are {a} and {b} trained on the same corpus?
& Do {a} and {b} share their training data?

system.optimiser optimiser
# Training
. {s} is optimised with {o}.
. We use {o} as the optimiser of {s}.
. The updates of {s} are computed by {o}.
? Which optimiser is used for {s}?
? What is {s} optimised with?
? How are the updates of {s} computed?
& Are {a} and {b} optimised in the same way?

system.dropout flag
# Training
.+ {s} is regularised with dropout.
.+ Dropout is applied in every layer of {s}.
.- {s} is trained without dropout.
.- No dropout is applied in {s}.
? Does {s} use dropout?
? Is dropout applied in {s}?

system.layers layers
# Method
. {s} has {o}.
. The encoder of {s} is a stack of {o}.
. We stack {o} to build {s}.
? How many layers does {s} have?
? What is the depth of {s} in layers?
? How deep is the encoder of {s}?
> is deeper
< is shallower

system.parameters parameters
# Method
. In total {s} holds {o}.
. There are {o} in {s}.
. The weights of {s} amount to {o}.
? How many parameters does {s} hold?
? What is the number of parameters of {s}?
? How many weights does {s} have?
> holds more parameters
< holds fewer parameters

system.pretrained flag
# Method
.+ {s} starts from pretrained weights.
.+ The weights of {s} were pretrained.
.- {s} starts from random weights.
.- The weights of {s} are initialised at random.
? Is {s} pretrained?
? Does {s} start from pretrained weights?

system.test corpus
# Experiments
. We evaluate {s} on {o}.
. The tests of {s} are run on {o}.
. {o} is the test bed of {s}.
? On which corpus is {s} evaluated?
? Where are the tests of {s} run?
? Which corpus is {s} tested on?
= the corpus on which {s} is evaluated
= the test bed of {s}
& Are {a} and {b} evaluated on the same corpus?

system.baseline system
# Experiments
. {s} is compared with {o}.
. As a baseline for {s} we take {o}.
. {o} is the baseline that {s} has to beat.
? What is the baseline of {s}?
? With which system is {s} compared?
? Which system does {s} have to beat?
= the baseline of {s}
= the system that {s} is compared with
& Do {a} and {b} have the same baseline?

system.score points
# Results
. {s} reaches {o}.
. For {s} we measure {o}.
. A result of {o} is what {s} achieves.
? What score does {s} reach?
? What is the result of {s}?
? How well does {s} do?
> reaches the higher score
> is the better system
< reaches the lower score

system.released flag
# Results
.+ The code of {s} is released.
.+ We make the code of {s} public.
.- The code of {s} is not released.
.- We cannot make the code of {s} public.
? Is the code of {s} available?
? Has the code of {s} been released?
"""
