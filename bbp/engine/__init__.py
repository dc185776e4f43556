"""What runs any experiment: the engine in one file (run), beside it parts on disk, and executors elsewhere."""
