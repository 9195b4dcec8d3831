"""The relations of towns, rivers, lakes and regions; the marks are explained in `wording`."""

from __future__ import annotations

TABLE = """
town.region region
. {s} is a town in {o}.
. {s} lies in {o}, among low hills.
. {o} is the region to which {s} belongs.
. Travellers who enter {o} from the south come first to {s}.
? In which region does {s} lie?
? To which region does {s} belong?
? What part of the country is {s} in?
= the region in which {s} lies
= the region that {s} belongs to
& Do {a} and {b} lie in the same region?
& Are {a} and {b} in one and the same region?

town.river river
. {s} stands on the banks of the river {o}.
. The river {o} flows through {s}.
. The water mills of {s} are driven by the river {o}.
. {s} grew around a ford across the river {o}.
? Which river flows through {s}?
? On which river does {s} stand?
? What is the name of the river of {s}?
= the river that flows through {s}
= the river on which {s} stands
& Do {a} and {b} stand on the same river?

town.mayor person
@ mayor
. The mayor of {s} is {o}.
. {o} was elected mayor of {s}.
. In the town hall of {s}, {o} has the last word.
. {s} is governed by {o} and a small council.
? Who is the mayor of {s}?
? Who governs {s}?
? Who leads the council of {s}?
= the mayor of {s}
= the person who governs {s}
! Of which town is {o} the mayor?
! Which town does {o} govern?
- the town governed by {o}

town.founded year
. {s} was founded in {o}.
. The first charter of {s} is dated {o}.
. {o} is the year in which {s} was founded.
. {s} has been a town since {o}.
? In which year was {s} founded?
? How far back does the history of {s} go, by year?
? When did {s} come into being?
< was founded earlier
< has the longer history
> was founded later
> is the younger of the two

river.mouth lake
. The river {s} flows into {o}.
. The river {s} ends in {o}.
. {o} takes in the water of the river {s}.
. The boats on the river {s} go down as far as {o}.
? Into which lake does {s} flow?
? Where does {s} end?
? Which lake receives {s}?
= the lake into which {s} flows
= the lake that receives {s}
& Do {a} and {b} flow into the same lake?

river.length length
. The river {s} is {o} long.
. From spring to mouth the river {s} measures {o}.
. The length of the river {s} is {o}.
. A walk along the river {s} is a walk of {o}.
? How long is {s}?
? What is the length of {s}?
? What does {s} measure from spring to mouth?
> is longer
< is shorter

lake.depth depth
. {s} is {o} deep.
. The deepest point of {s} lies at {o}.
. In {s} the bottom is reached at {o}.
. Divers measured {o} in {s}.
? How deep is {s}?
? What is the depth of {s}?
? How far down is the bottom of {s}?
> is deeper
< is shallower

lake.warden person
@ warden
. {o} is the warden of {s}.
. {s} is looked after by {o}.
. {o} counts the swans on {s} every spring.
. Permits for {s} are signed by {o}.
? Who is the warden of {s}?
? Who looks after {s}?
? Who is responsible for {s}?
= the warden of {s}
= the person who looks after {s}
! Of which lake is {o} the warden?
! Which lake does {o} look after?
- the lake looked after by {o}

region.capital town
. The capital of {s} is {o}.
. {s} is ruled from {o}.
. {o} is the chief town of {s}.
. The parliament of {s} meets in {o}.
? What is the capital of {s}?
? Which town is the chief town of {s}?
? Where does the parliament of {s} sit?
= the capital of {s}
= the chief town of {s}
! Of which region is {o} the capital?
! Which region is ruled from {o}?
- the region ruled from {o}

region.ruler person
@ ruler
. The ruler of {s} is {o}.
. {o} wears the crown of {s}.
. {s} is under the rule of {o}.
. Coins in {s} show the face of {o}.
? Who rules {s}?
? Who is the ruler of {s}?
? Whose face is on the coins of {s}?
= the ruler of {s}
= the person who rules {s}
! Which region does {o} rule?
! Over which region does {o} reign?
- the region ruled by {o}

region.export good
. {s} lives on the sale of {o}.
. {s} sends {o} to all the world.
. Ships leave {s} laden with {o}.
. The wealth of {s} comes from {o}.
? What does {s} sell abroad?
? On what does {s} live?
? Which goods do ships carry out of {s}?
& Do {a} and {b} sell the same goods abroad?
"""
