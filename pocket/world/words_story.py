"""The relations of the stories; the things in them pass from hand to hand in the order of this table."""

from __future__ import annotations

TABLE = """
keepsake.maker person
@ maker
. {s} was made by {o}.
. {o} sat up three nights to finish {s}.
. "I made {s} with my own hands," said {o}.
. From the bench of {o} came {s}.
? Who made {s}?
? Whose work was {s}?
? Whose hands made {s}?
= the maker of {s}
= the person who made {s}
! What did {o} make?
! Which thing was the work of {o}?
- the thing made by {o}

keepsake.receiver person
. {s} was given to {o} as a present.
. {o} unwrapped {s} on a birthday.
. "Is this really for me?" asked {o}, holding {s}.
. As a farewell gift, {s} went to {o}.
? Who was given {s}?
? To whom did {s} go as a present?
? Who got {s} as a gift?
= the person who was given {s}
! Which present did {o} get?
! What was {o} given?
- the present that {o} got

keepsake.thief person
@ thief
. {o} stole {s} in the dark.
. One night {s} was carried off by {o}.
. "Yes, I took {s}," {o} confessed.
. When the lamp went out, {o} slipped away with {s}.
? Who stole {s}?
? Who took {s} without asking?
? Who was the thief of {s}?
= the thief of {s}
= the person who stole {s}
! What did {o} steal?
! Which thing did {o} carry off?
- the thing that {o} stole

keepsake.hidden spot
. {s} was hidden in {o}.
. Under a cloth in {o} lay {s}.
. Somebody had put {s} out of sight in {o}.
. In {o}, {s} waited for better days.
? Where was {s} hidden?
? In which place did {s} lie concealed?
? Where was {s} kept out of sight?
& Were {a} and {b} hidden in the same place?

keepsake.finder person
@ finder
. {o} found {s} by chance.
. It was {o} who came upon {s}.
. "Look what I have found," cried {o}, and held up {s}.
. {s} was discovered by {o}.
? Who found {s}?
? Who came across {s}?
? By whom was {s} discovered?
= the finder of {s}
= the person who found {s}
! What did {o} find?
! Which thing did {o} come across?
- the thing found by {o}

keepsake.price price
. {s} was sold for {o}.
. The buyer counted out {o} for {s}.
. "Not less than {o} for {s}," said the dealer, and got it.
. {s} changed hands for {o}.
? What was paid for {s}?
? For how much was {s} sold?
? What did {s} cost?
> cost more
> was more expensive
< was cheaper

keepsake.buyer person
@ buyer
. {o} bought {s} at the autumn sale.
. {s} went home with {o}, who had paid in coins.
. "I will take it," said {o} before {s}, and paid.
. The highest bid for {s} came from {o}.
? Who bought {s}?
? Who paid for {s}?
? Who became the owner of {s} at the sale?
= the buyer of {s}
= the person who bought {s}
! What did {o} buy?
- the thing that {o} bought

person.village town
. {s} came from {o}.
. {s} had grown up in {o}.
. "I am from {o}," said {s}.
. Nobody in {o} had forgotten {s}, who was a child there.
? Where did {s} come from?
? In which village had {s} grown up?
? What was the native place of {s}?
= the village where {s} had grown up
= the native place of {s}
& Did {a} and {b} come from the same village?

person.trade craft
. {s} worked as a {o}.
. {s} was a {o} and proud of it.
. "A {o} like me is always busy," said {s}.
. Everyone knew {s}, the {o}.
? What was the trade of {s}?
? How did {s} earn a living?
? What work did {s} do?
& Did {a} and {b} have the same trade?

person.friend person
@ best friend
. The best friend of {s} was {o}.
. {s} trusted nobody as much as {o}.
. "I would go through fire for you," {s} told {o}.
. {s} told every secret to {o}.
? Who was the best friend of {s}?
? Whom did {s} trust most?
? To whom did {s} tell every secret?
= the best friend of {s}
= the person whom {s} trusted most
& Did {a} and {b} trust the same person most?

person.lodging spot
. {s} slept in {o}.
. {s} had a bed of straw in {o}.
. "My bed is in {o}," said {s}.
. At night {s} went back to {o} to sleep.
? Where did {s} sleep?
? In which place did {s} spend the nights?
? Where was the bed of {s}?
& Did {a} and {b} sleep in the same place?

person.lender person
@ lender
. {s} owed money to {o}.
. {o} had lent {s} a large sum.
. "You will get it back," {s} promised {o}, who had lent the money.
. In the books of {o} stood the debts of {s}.
? To whom did {s} owe money?
? Who had lent money to {s}?
? With whom was {s} in debt?
= the person to whom {s} owed money
= the lender of {s}
"""
