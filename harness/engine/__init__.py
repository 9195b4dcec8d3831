"""A run: the plan, the loop over questions, indexing, the tools a method gets, scoring, parallel
execution."""
