"""Many calls at once: threads that wait for each other without deadlock, and maps that keep
order."""
