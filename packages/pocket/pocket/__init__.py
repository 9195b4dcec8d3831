"""The pocket world: long documents made up on the spot, with questions whose answers and evidence
are known.

    world     sample(kind, seed, tokens=...)     documents, questions, gold, facts and where each is stated
      render_encyclopedia   MuSiQue, HotpotQA, 2WikiMultihopQA,      render_story   NarrativeQA, QuALITY
                            eight retrieved documents                render_paper   Qasper
        layout      sentences, also such that say nothing, to paragraphs to a document, every offset known
        facts_and_distractors   facts grown around the questions: proofs, then look-alikes
          fact_proofs   the fact base and the prover
          templates relations and their sentences (words/*.txt)
          names     one-word names without end; trades, goods, numbers
    tasks     scenes of every skill: a text, what is asked about it, what is right
    eval      the exam of the model and its card
    train     the makers of the model: curriculum, batches, first weights, trainer
    reranker  the same for a small reranker

>>> from pocket.world.sample import sample
>>> made = sample("musique", seed=1_000_000, tokens=500, purpose="training")
"""
