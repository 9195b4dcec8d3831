"""Training and test scenes: a text of the world, a task, and the right replies."""
