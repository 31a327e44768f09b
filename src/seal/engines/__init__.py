"""Training engines: the policy update of Algorithm 1 on libraries that already scale."""
