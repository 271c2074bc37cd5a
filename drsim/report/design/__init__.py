"""What `drsim design` prints."""
