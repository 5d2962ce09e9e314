"""The race of `./dev bench`: ways to save and to load take turns beside what the machine gives to the plainest program."""
