"""What runs any experiment: tasks, parts, locks, clusters, estimates."""
