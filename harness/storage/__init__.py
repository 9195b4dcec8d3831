"""What is on disk: run folders, the index cache, locks, atomic files, the hub."""
