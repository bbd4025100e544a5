"""Ray Serve for tests: an environment of its own, and a small application of several replicas in it."""
