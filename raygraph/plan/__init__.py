"""What runs next: due nodes, pending sends, the identity of tasks."""
