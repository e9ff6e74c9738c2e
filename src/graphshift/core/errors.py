"""What a user can get wrong, and the limit of what is repaired without asking."""


class GraphshiftError(ValueError):
    """A mistake in what the user gave: the message names it and says what to do.

    The command line prints the message alone and exits with status 2.
    """


class GraphshiftWarning(UserWarning):
    """Something in the user's data was repaired or deserves a look; the message counts it."""
