"""Tables, curves, figures and pages out of stored runs."""
