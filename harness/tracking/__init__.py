"""MLflow, filled from run folders."""
