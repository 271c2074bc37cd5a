"""What firing on a critic's scores would gain."""
