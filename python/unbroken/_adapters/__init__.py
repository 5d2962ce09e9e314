"""One file for each framework that brings a loop or a format of its own; unbroken.dcp and the like are their names."""
