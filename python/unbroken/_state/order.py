"""When what is put back (Plan.then): later ones see what earlier ones did."""

CASTS, CONTAINERS, MODULES, OPTIMIZERS, SCHEDULERS, OBJECTS, GENERATORS = range(7)
