"""What torch's objects are made of. Imported only where torch is."""
