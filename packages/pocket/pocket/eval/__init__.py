"""What the embedded model can do: the exam, its metrics, and the model card."""
