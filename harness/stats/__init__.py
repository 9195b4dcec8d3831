"""Statistics: intervals by clustered bootstrap, paired tests, and reproducible random draws."""
