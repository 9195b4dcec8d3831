"""The relations of people, books, companies, schools and festivals; the marks are explained in `wording`."""

from __future__ import annotations

TABLE = """
person.born town
. {s} was born in {o}.
. {s} came into the world in {o}, in a house behind the church.
. {o} is the birthplace of {s}.
. It was in {o} that {s} first saw the light of day.
? Where was {s} born?
? In which town did the life of {s} begin?
? What is the birthplace of {s}?
= the town where {s} was born
= the birthplace of {s}
& Were {a} and {b} born in the same town?
& Do {a} and {b} share a birthplace?

person.home town
. {s} lives in {o}.
. {s} has settled in {o} for good.
. {o} is where {s} keeps a house.
. The letters of {s} are all sent from {o}, from the same address.
? Where does {s} live?
? In which town is {s} at home?
? What is the place of residence of {s}?
= the town where {s} lives
= the place of residence of {s}
& Do {a} and {b} live in the same town?
& Have {a} and {b} made their homes in one and the same town?

person.teacher person
@ teacher
. {s} was taught by {o}.
. {s} learned the art from {o}.
. {o} trained {s} for many years.
. {s} was for a long time a pupil of {o}.
? Who taught {s}?
? Whose pupil was {s}?
? By whom was {s} instructed?
= the teacher of {s}
= the person who taught {s}
! Who was a pupil of {o}?
! Whom did {o} instruct?
- the pupil of {o}
& Were {a} and {b} taught by the same person?

person.employer company
. {s} works for {o}.
. {o} pays the wages of {s}.
. {s} is on the staff of {o}.
. {s} has a post at {o}.
? Which company does {s} work for?
? Who employs {s}?
? With which firm has {s} found work?
= the company that employs {s}
= the employer of {s}
& Do {a} and {b} work for the same company?
& Have {a} and {b} the same employer?

person.school school
. {s} studied at {o}.
. {s} holds a degree from {o}.
. {o} counts {s} among its graduates.
. {s} spent the student years at {o}.
? Where did {s} study?
? Which school did {s} attend?
? From which school did {s} graduate?
= the school where {s} studied
= the school that {s} attended
& Did {a} and {b} attend the same school?
& Are {a} and {b} graduates of the same school?

person.craft craft
. {s} is a {o} by trade.
. {s} earns a living as a {o}.
. By profession {s} is a {o}.
. Neighbours know {s} as a good {o}.
? What is the profession of {s}?
? How does {s} make a living?
? What work does {s} do?
& Do {a} and {b} have the same profession?
& Are {a} and {b} in the same line of work?

person.birth year
. {s} was born in the year {o}.
. The year of birth of {s} is {o}.
. The parish book enters the birth of {s} under {o}.
. {o} is the year in which {s} came into the world.
? In which year was {s} born?
? When did the life of {s} begin?
? What is the year of birth of {s}?
< was born earlier
< is older
> was born later
> is younger

school.place town
. {s} is a school in {o}.
. {s} has its halls in {o}.
. {o} is the seat of the school {s}.
. The lecture rooms of {s} are all in {o}.
? In which town is {s}?
? Where does {s} have its halls?
? Where is {s} to be found?
= the town where {s} is found
= the seat of {s}
& Are {a} and {b} in the same town?

school.head person
@ head
. {o} is the head of {s}.
. {s} is led by {o}.
. {o} signs the diplomas of {s}.
. The chair at {s} is held by {o}.
? Who leads {s}?
? Who is in charge of {s}?
? Who stands at the top of {s}?
= the head of {s}
= the person who leads {s}
! Which school does {o} lead?
! Of which school is {o} in charge?
- the school led by {o}

school.opened year
. {s} opened its doors in {o}.
. Teaching at {s} began in {o}.
. {o} was the first year of {s}.
. The oldest class list of {s} is from {o}.
? In which year did {s} open?
? Since when has there been teaching at {s}?
? When did {s} take in its first students?
< opened earlier
< is older
> opened later
> is younger

company.seat town
. {s} has its head office in {o}.
. {s} is run from {o}.
. {o} is the home of the company {s}.
. The workshops of {s} are in {o}.
? Where is the head office of {s}?
? From which town is {s} run?
? In which town does {s} have its seat?
= the town where {s} has its head office
= the seat of {s}
& Are {a} and {b} run from the same town?
& Do {a} and {b} have their seat in the same town?

company.founder person
@ founder
. {s} was set up by {o}.
. {o} founded {s} with borrowed money.
. {s} goes back to {o}, who put up the first sign.
. The company {s} was started by {o}.
? Who founded {s}?
? By whom was {s} established?
? To whom does {s} owe its existence?
= the founder of {s}
= the person who set up {s}
! Which company did {o} set up?
! Which company goes back to {o}?
- the company founded by {o}
& Were {a} and {b} set up by the same person?

company.product good
. {s} makes {o}.
. {s} sells {o} of its own making.
. The whole output of {s} is {o}.
. {s} is best known for {o}.
? What does {s} make?
? Which goods come from {s}?
? What is the product of {s}?
& Do {a} and {b} make the same goods?
& Is the product of {a} the same as that of {b}?

company.started year
. {s} was set up in {o}.
. {s} has been in business since {o}.
. The first bill of {s} was written in {o}.
. {o} was the year in which {s} began to trade.
? In which year was {s} set up?
? Since when has {s} been in business?
? When did {s} begin to trade?
< has been in business for longer
< began to trade earlier
> began to trade later

book.author person
@ author
. {s} is a book by {o}.
. {o} wrote {s} in a single winter.
. The book {s} came from the pen of {o}.
. {o} is the author of {s}.
? Who wrote {s}?
? By whom was {s} written?
? Whose work is {s}?
= the author of {s}
= the person who wrote {s}
! Which book did {o} write?
! Which book is the work of {o}?
- the book by {o}
- the book that {o} wrote
& Were {a} and {b} written by the same person?

book.setting town
. The story of {s} takes place in {o}.
. {s} is set in {o}.
. {o} is the scene of {s}.
. Readers of {s} come to know every street of {o}.
? In which town is {s} set?
? Where does the story of {s} take place?
? What is the scene of {s}?
= the town in which {s} is set
= the scene of {s}
& Are {a} and {b} set in the same town?

book.publisher company
. {s} was published by {o}.
. {o} brought out {s}.
. {s} appeared with {o}.
. The rights to {s} belong to {o}.
? Who published {s}?
? Which company brought out {s}?
? With which company did {s} appear?
= the publisher of {s}
= the company that published {s}
& Did {a} and {b} appear with the same company?

book.printed year
. {s} was first printed in {o}.
. {o} saw the first edition of {s}.
. The title page of {s} gives the year {o}.
. {s} was in the shops by the end of {o}.
? In which year was {s} first printed?
? When did {s} come out?
? From which year is the first edition of {s}?
< was printed first
< came out earlier
> came out later

festival.venue town
. {s} is a festival held in {o}.
. {s} fills the streets of {o} once a year.
. {o} is the place where {s} is celebrated.
. Visitors to {s} find a bed in {o} only with luck.
? In which town is {s} held?
? Where is {s} celebrated?
? What is the place of {s}?
= the town where {s} is held
= the place where {s} is celebrated
& Are {a} and {b} held in the same town?

festival.winner person
@ winner
. The prize of {s} went to {o}.
. {o} won the first prize at {s}.
. At {s} the jury chose {o}.
. {s} made {o} its winner.
? Who won the prize of {s}?
? To whom did the jury of {s} give the prize?
? Who came first at {s}?
= the winner of {s}
= the person who came first at {s}
! At which festival did {o} win the prize?
! Which festival did {o} win?
- the festival won by {o}

festival.sponsor company
. {s} is paid for by {o}.
. {o} gives the money for {s}.
. The banners at {s} carry the name of {o}.
. Without {o} there would be no money for {s}.
? Which company pays for {s}?
? Who is the sponsor of {s}?
? Where does the money for {s} come from?
= the sponsor of {s}
= the company that pays for {s}
& Are {a} and {b} paid for by the same company?

festival.first year
. {s} was first held in {o}.
. {o} was the year of the first {s}.
. {s} has been celebrated since {o}.
. The oldest poster of {s} is from {o}.
? In which year was {s} first held?
? Since when has {s} been celebrated?
? When did {s} begin?
< was held first
< began earlier
> began later
"""
