"""What runs cost: events of model calls, the meter, FLOPs by convention, forecasts."""
