"""A training whose steps are real: matrix products, a backward pass, AdamW."""


class Loop:
    def __init__(self, mib):
        raise NotImplementedError
