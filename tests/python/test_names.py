"""What a user can see: of a Saving, and of the errors."""

import unbroken
from unbroken import errors


def test_a_saving_shows_what_became_of_it_and_no_way_to_change_that():
    shown = {name for name in [*vars(unbroken.Saving()), *vars(unbroken.Saving)] if not name.startswith("_")}
    stages = {"staged", "durable", "verified", "staging_completion", "upload_completion"}
    assert shown == {*stages, "is_durable", "name", "step", "wait"}


def test_every_error_that_a_user_meets_is_exported():
    assert all(getattr(unbroken, name) is kind for name, kind in errors._CLASSES.items())
    assert set(errors._CLASSES) | {"Error", "Interrupted"} <= set(unbroken.__all__)
