"""How the embedded model is trained."""
