"""The pocket world: long documents made up on the spot, with questions whose answers and evidence are known.

    world     sample(kind, seed, tokens=...)     documents, questions, gold, facts and where each is stated
      render_encyclopedia   MuSiQue, HotpotQA, 2WikiMultihopQA       render_story   NarrativeQA
      render_paper          Qasper                                   render_choice  QuALITY
      render_retrieved      eight documents a question
        layout    sentences to paragraphs to a document, every offset known
        growth    facts grown around the questions: proofs, then look-alikes
          facts     the fact base and the prover
          wording   relations and their sentences (words_*.py)
          names, values, filler     one-word names without end; trades, goods, numbers; sentences that say nothing
          dice      chance that is the same on any machine

>>> from pocket.world.sample import sample
>>> made = sample("musique", seed=1_000_000, tokens=500, purpose="training")
"""
