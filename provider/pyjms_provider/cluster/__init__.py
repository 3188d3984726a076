"""Several broker processes that serve one virtual host (`docs/design/cluster.md`)."""
