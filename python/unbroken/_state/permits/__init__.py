"""What a user permits a restore to do that it refuses by itself."""
